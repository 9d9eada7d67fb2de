// bounds_test.cpp: bounds are those of the allocation, to the byte, in every function of shim/hip/hip_hooks.def that
// takes an address and a size. The same natively and under the library.
#include "bounds.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "tests/preload/graphs/captures.h"

namespace {

using namespace captures;
using namespace memory_rules;

constexpr const char* kRows[] = {
#include "bounds_rows.inc"
};

/// Rows that are not called here, and why.
struct Reason {
  const char* why;
  std::vector<const char*> rows;
};
const std::vector<Reason>& reasons() {
  static const std::vector<Reason> all = {
      {"it makes the memory",
       {"hipExtHostAlloc", "hipExtMallocWithFlags", "hipHostAlloc", "hipHostMalloc", "hipMalloc", "hipMallocAsync",
        "hipMallocFromPoolAsync", "hipMallocHost", "hipMallocManaged", "hipMallocPitch", "hipMemAllocHost",
        "hipMemAllocPitch", "hipGraphAddMemAllocNode", "hipMemAddressReserve"}},
      {"host memory of the program's own", {"hipHostRegister"}},
      {"it is about mappings, and memory of hipMalloc is none",
       {"hipMemAddressFree", "hipMemMap", "hipMemSetAccess", "hipMemUnmap"}},
      {"the size is an answer",
       {"hipGetSymbolSize", "hipKernelGetParamInfo", "hipMemGetAddressRange", "hipMemPtrGetInfo", "hipModuleGetGlobal",
        "hiprtcLinkComplete", "hipLinkComplete", "hipGraphicsResourceGetMappedPointer",
        "hipOccupancyAvailableDynamicSMemPerBlock"}},
      {"it reads what a node has",
       {"hipDrvGraphMemcpyNodeGetParams", "hipGraphBatchMemOpNodeGetParams",
        "hipGraphExternalSemaphoresSignalNodeGetParams", "hipGraphExternalSemaphoresWaitNodeGetParams",
        "hipGraphMemAllocNodeGetParams", "hipGraphMemcpyNodeGetParams", "hipGraphMemsetNodeGetParams"}},
      {"a value has a fixed size: rules 22 and 24 about values",
       {"hipStreamBatchMemOp", "hipGraphAddBatchMemOpNode", "hipGraphBatchMemOpNodeSetParams",
        "hipGraphExecBatchMemOpNodeSetParams"}},
      {"no memory of the program's: launches, semaphores, objects, structures of other things",
       {"hipExtLaunchKernel",
        "hipExtModuleLaunchKernel",
        "hipHccModuleLaunchKernel",
        "hipLaunchCooperativeKernel",
        "hipLaunchCooperativeKernel_spt",
        "hipLaunchKernel",
        "hipLaunchKernel_spt",
        "hipModuleLaunchCooperativeKernel",
        "hipModuleLaunchKernel",
        "hipSetupArgument",
        "__hipRegisterManagedVar",
        "__hipRegisterVar",
        "hipStreamBeginCaptureToGraph",
        "hipGraphInstantiateWithParams",
        "hipGraphReleaseUserObject",
        "hipGraphRetainUserObject",
        "hipGraphAddExternalSemaphoresSignalNode",
        "hipGraphAddExternalSemaphoresWaitNode",
        "hipGraphExternalSemaphoresSignalNodeSetParams",
        "hipGraphExternalSemaphoresWaitNodeSetParams",
        "hipGraphExecExternalSemaphoresSignalNodeSetParams",
        "hipGraphExecExternalSemaphoresWaitNodeSetParams"}},
      {"the CPU runtime has no arrays and textures",
       {"hipMemcpy2DFromArray",
        "hipMemcpy2DFromArray_spt",
        "hipMemcpy2DToArray",
        "hipMemcpy2DToArray_spt",
        "hipMemcpyAtoD",
        "hipMemcpyAtoH",
        "hipMemcpyDtoA",
        "hipMemcpyFromArray",
        "hipMemcpyFromArray_spt",
        "hipMemcpyHtoA",
        "hipMemcpyToArray",
        "hipMemcpy2DFromArrayAsync",
        "hipMemcpy2DFromArrayAsync_spt",
        "hipMemcpy2DToArrayAsync",
        "hipMemcpy2DToArrayAsync_spt",
        "hipMemcpyAtoHAsync",
        "hipMemcpyHtoAAsync",
        "hipBindTexture",
        "hipBindTexture2D",
        "hipTexRefSetAddress"}},
      {"the CPU runtime has none, and no header says what the structures are",
       {"hipDrvMemDiscardAndPrefetchBatchAsync", "hipDrvMemDiscardBatchAsync", "hipMemDiscardAndPrefetchBatchAsync",
        "hipMemDiscardBatchAsync", "hipMemPrefetchBatchAsync", "hipMemcpy3DBatchAsync", "hipMemcpy3DPeer",
        "hipMemcpy3DPeerAsync", "hipMemcpyBatchAsync", "hipMemGetHandleForAddressRange"}},
  };
  return all;
}

bool vmm() {
  const char* const backing = std::getenv("GRAPHPOOL_POOL_BACKING");
  return under_library() && backing != nullptr && std::strcmp(backing, "vmm") == 0;
}

std::vector<Touch> all_touches() {
  std::vector<Touch> all = touches();
  for (Touch& touch : advice()) all.push_back(std::move(touch));
  return all;
}

TEST(Bounds, every_row_that_takes_memory_and_a_size_is_called_or_has_a_reason) {
  std::set<std::string> rows(std::begin(kRows), std::end(kRows)), called, excused;
  ASSERT_FALSE(rows.empty());
  for (const Touch& touch : all_touches()) called.insert(touch.row());
  for (const Reason& reason : reasons())
    for (const char* row : reason.rows) EXPECT_TRUE(excused.insert(row).second) << row << " has two reasons";
  for (const std::string& row : rows)
    EXPECT_EQ(1u, called.count(row) + excused.count(row)) << row << " needs a call in bounds.h, or a reason here";
  for (const std::string& row : called) EXPECT_EQ(1u, rows.count(row)) << row << " is no such row";
  for (const std::string& row : excused) EXPECT_EQ(1u, rows.count(row)) << row << " is no such row";
}

TEST(Bounds, rule_22_one_byte_beyond_an_allocation_gets_the_bounds_error) {
  constexpr std::size_t kBytes = 64 * 1024;
  const Stream stream;
  const auto allocate = [](std::size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(hipSuccess, hipMalloc(&memory, bytes));
    return static_cast<char*>(memory);
  };
  std::size_t free_before = 0, free_after = 0, total = 0;
  static_cast<void>(symbol());
  OK(hipMemset(allocate(kBytes), 0, kBytes));
  OK(hipMemGetInfo(&free_before, &total));
  char *const before = allocate(kBytes), *const fits = allocate(kBytes), *const short_of = allocate(kBytes - 1);
  char *const after = allocate(kBytes), *const other = allocate(4 * kBytes);
  std::vector<char> host(4 * kBytes);
  for (char* const each : {before, fits, after}) OK(hipMemset(each, 0x11, kBytes));
  OK(hipMemset(other, 0, 4 * kBytes));
  for (const Touch& touch : all_touches()) {
    SCOPED_TRACE(touch.name);
    if (!touch.refuses_mappings || !vmm()) {
      EXPECT_EQ(hipSuccess, touch.call(fits, other, host.data(), kBytes, stream));
      EXPECT_EQ(hipSuccess, touch.call(fits + kBytes - 512, other, host.data(), 512, stream));
    }
    EXPECT_EQ(hipErrorInvalidValue, touch.call(short_of, other, host.data(), kBytes, stream));
    EXPECT_EQ(hipErrorInvalidValue, touch.call(short_of + kBytes - 512, other, host.data(), 512, stream));
    EXPECT_EQ(hipErrorInvalidValue, touch.call(fits + kBytes - 512, other, host.data(), 768, stream));
  }
  OK(hipStreamSynchronize(stream));
  OK(hipDeviceSynchronize());
  for (char* const neighbour : {before, after}) {
    OK(hipMemcpy(host.data(), neighbour, kBytes, kOut));
    EXPECT_EQ(static_cast<std::ptrdiff_t>(kBytes), std::count(host.begin(), host.begin() + kBytes, 0x11));
  }
  for (char* const each : {before, fits, short_of, after, other}) OK(hipFree(each));
  OK(hipMemGetInfo(&free_after, &total));
  EXPECT_EQ(free_before, free_after);
  static_cast<void>(hipGetLastError());
}

}  // namespace
