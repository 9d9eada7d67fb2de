// pressure_test.cpp: memory runs short, and the program frees what it took. Plain HIP: the same tests run natively and
// under the library. That addresses come back is expected under the library where all freed memory may be kept.
#include <cstring>
#include <vector>

#include "memory_calls.h"
#include "tests/preload/graphs/captures.h"

namespace {

using namespace captures;
using namespace memory_calls;

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;

bool is_set(const char* name, const char* value) {
  const char* const found = std::getenv(name);
  return under_library() && found != nullptr && std::strcmp(found, value) == 0;
}
bool vmm() { return is_set("GRAPHPOOL_POOL_BACKING", "vmm"); }
/// All that is freed is kept, as parts of chunks.
bool keeps_all() { return vmm() && is_set("GRAPHPOOL_POOL_LIMIT", "100%"); }

void free_all(const std::vector<char*>& blocks) {
  for (char* const block : blocks) EXPECT_EQ(hipSuccess, hipFree(block));
}

/// All but kAll bytes of the device are taken.
class UnderPressure : public ::testing::Test {
 protected:
  static constexpr std::size_t kAll = 14 * kMiB;

  void SetUp() override {
    if (vmm() && !keeps_all()) GTEST_SKIP() << "the chunks in use are most of what is left";
    ballast_ = allocate(free_bytes() - kAll);
  }
  void TearDown() override {
    OK(hipDeviceSynchronize());
    OK(hipFree(ballast_));
    static_cast<void>(hipGetLastError());
  }

  /// Blocks of this size until little memory is left: a chunk may be larger than what is put into it.
  static std::vector<char*> fill(std::size_t bytes) {
    std::vector<char*> blocks;
    while (free_bytes() >= kLittle) blocks.push_back(allocate(bytes));
    return blocks;
  }
  static constexpr std::size_t kLittle = 4 * kMiB;

 private:
  char* ballast_ = nullptr;
};

TEST_F(UnderPressure, a_graphs_memory_comes_back_at_its_address_and_nothing_is_captured_again) {
  constexpr std::size_t kBytes = 2 * kLittle;  // which is given back, then
  constexpr int kSteps = 4;
  hipStream_t stream = nullptr;
  OK(hipStreamCreate(&stream));
  char* first = nullptr;
  for (int step = 0; step < kSteps; ++step) {
    char* const memory = allocate(kBytes);
    if (step == 0) first = memory;
    if (keeps_all()) {
      EXPECT_EQ(first, memory) << "step " << step;
    }
    OK(hipMemset(memory, 0, kBytes));
    const Since since = graph_calls();
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(kernels().mix(stream, reinterpret_cast<int*>(memory), kCount, 7));
    OK(kernels().mix(stream, reinterpret_cast<int*>(memory), kCount, 9));
    OK(hipStreamEndCapture(stream, &graph));
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    if (keeps_all() && compares_captures() && step > 0) {
      EXPECT_EQ(0, since["hipModuleLaunchKernel"]) << "step " << step;
      // For want of room an exec that nobody uses goes, too, and is made once more.
      if (step > 1) {
        EXPECT_EQ(0, since["hipGraphInstantiate"]) << "step " << step;
      }
      EXPECT_EQ(0, since["hipGraphExecKernelNodeSetParams"]) << "step " << step;
    }
    int value = 0;
    OK(hipMemcpy(&value, memory, sizeof value, hipMemcpyDeviceToHost));
    EXPECT_EQ(7 * 31 + 9, value);
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    OK(hipFree(memory));
    free_all(fill(kMiB));
  }
  OK(hipStreamDestroy(stream));
}

TEST_F(UnderPressure, memory_beside_memory_in_use_keeps_its_address) {
  char* const used = allocate(64 * kKiB);
  char* const beside = allocate(64 * kKiB);
  OK(hipFree(beside));
  OK(hipFree(allocate(2 * kLittle)));  // which is given back, then
  free_all(fill(kMiB));
  char* const smaller = allocate(4 * kKiB);
  char* const again = allocate(64 * kKiB);
  if (keeps_all()) {
    EXPECT_EQ(beside, again);
  }
  free_all({used, smaller, again});
}

TEST_F(UnderPressure, what_is_freed_beside_memory_in_use_fits_again_in_another_size) {
  std::vector<char*> used, freed;
  for (char* const block : fill(kMiB)) (used.size() <= freed.size() ? used : freed).push_back(block);
  free_all(freed);
  const std::vector<char*> smaller = fill(kMiB / 2);
  EXPECT_LE(2 * freed.size(), smaller.size() + 1);
  free_all(smaller);
  free_all(used);
}

}  // namespace
