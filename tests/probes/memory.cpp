// memory.cpp: allocations, frees, mappings, what is asked about memory, errors.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/probes/probe.h"

namespace probes {
namespace {

constexpr int kMostOneWaits = 2000;  ///< milliseconds for which a stream is held up where a call shall not wait for it

/// An address that no runtime has handed out.
void* strange_address() {
  void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw Unknown("no address space");
  return page;
}

Finding last_error_goes_by_version() {
  const bool keeps = runtime_version() >= version_of(7, 0);
  static_cast<void>(hip::hipGetLastError());
  if (hip::hipSetDevice(-1) == hipSuccess) throw Unknown("hipSetDevice(-1) works");
  const hipError_t first = hip::hipPeekAtLastError();
  if (first == hipSuccess) return {Answer::kFails, "an error is not kept"};
  if (hip::hipPeekAtLastError() != first) return {Answer::kFails, "looking at it takes it"};
  WORKS(hip::hipSetDevice(0));
  const bool kept = hip::hipGetLastError() != hipSuccess;
  return holds_if(kept == keeps, kept ? "success leaves it" : "success takes it");
}

Finding device_type_goes_by_version() {
  const Word word;
  // hipPointerAttribute_t begins with the type of memory in all versions.
  alignas(8) unsigned char told[256] = {};
  WORKS(hip::hipPointerGetAttributes(reinterpret_cast<hipPointerAttribute_t*>(told), word.at()));
  int type = 0;
  std::memcpy(&type, told, sizeof type);
  return holds_if(type == (runtime_version() < version_of(6, 0) ? 1 : 2), "device memory is " + std::to_string(type));
}

Finding driver_copies_go_by_version() {
  needs_device_work();
  const Word from, to;
  from.set(17);
  const auto type = static_cast<hipMemoryType>(runtime_version() < version_of(6, 0) ? 1 : 2);
  graphpool::WideMemcpy3D wide{};
  HIP_MEMCPY3D narrow{};
  wide.src_type = wide.dst_type = narrow.srcMemoryType = narrow.dstMemoryType = type;
  wide.src_device = narrow.srcDevice = from.at();
  wide.dst_device = narrow.dstDevice = to.at();
  wide.width_bytes = sizeof(int);
  narrow.WidthInBytes = sizeof(int);
  wide.src_pitch = wide.dst_pitch = 64;
  narrow.srcPitch = narrow.dstPitch = 64;
  wide.src_height = wide.dst_height = wide.height = wide.depth = 1;
  narrow.srcHeight = narrow.dstHeight = narrow.Height = narrow.Depth = 1;
  const bool is_wide = runtime_version() >= version_of(6, 0);
  const hipError_t result = hip::hipDrvMemcpy3D(is_wide ? reinterpret_cast<HIP_MEMCPY3D*>(&wide) : &narrow);
  if (result != hipSuccess) return {Answer::kFails, error_name(result)};
  return holds_if(to.value() == 17);
}

Finding driver_fills_go_by_version() {
  needs_device_work();
  const Stream stream;
  const Word word;
  hipCtx_t context = nullptr;
  WORKS(hip::hipCtxGetCurrent(&context));
  hipGraph_t graph = nullptr;
  hipGraphNode_t node = nullptr;
  WORKS(hip::hipGraphCreate(&graph, 0));
  hipMemsetParams newer = fill_params(word.at(), 19);
  graphpool::DriverFill older{word.at(), sizeof(int), 19, sizeof(int), 1, 1};
  const auto* const params =
      runtime_version() >= version_of(7, 0) ? &newer : reinterpret_cast<const hipMemsetParams*>(&older);
  const hipError_t added = hip::hipDrvGraphAddMemsetNode(&node, graph, nullptr, 0, params, context);
  if (added != hipSuccess) return {Answer::kFails, error_name(added)};
  run(instantiate(graph), stream);
  return holds_if(word.value() == 19);
}

Finding free_waits_for_streams() {
  const Stream stream;
  void* memory = nullptr;
  WORKS(hip::hipMalloc(&memory, Word::kBytes));
  const Blocked blocked(stream, 300);
  WORKS(hip::hipFree(memory));
  return holds_if(blocked.released());
}

Finding malloc_waits_for_nothing() {
  const Stream stream;
  void* memory = nullptr;
  const Blocked blocked(stream, kMostOneWaits);
  WORKS(hip::hipMalloc(&memory, Word::kBytes));
  return holds_if(!blocked.released());
}

Finding strange_address_is_refused() {
  void* const strange = strange_address();
  const hipError_t freed = hip::hipFree(strange);
  if (freed == hipSuccess) return {Answer::kFails, "hipFree takes it"};
  hipDeviceptr_t base = nullptr;
  std::size_t bytes = 0;
  const hipError_t asked = hip::hipMemGetAddressRange(&base, &bytes, strange);
  return holds_if(asked != hipSuccess, error_name(freed) + " and " + error_name(asked));
}

Finding operands_are_bounded() {
  const Word word, other;
  constexpr std::size_t kMuch = std::size_t{16} << 20;
  void* small = nullptr;
  WORKS(hip::hipMalloc(&small, 1));
  std::string taken;
  const auto refused = [&](const char* name, hipError_t result) {
    if (result == hipSuccess) taken += (taken.empty() ? "not by " : ", ") + std::string(name);
  };
  refused("hipMemset", hip::hipMemset(small, 0, kMuch));
  refused("hipMemcpy", hip::hipMemcpy(other.at(), small, Word::kBytes + 1, hipMemcpyDeviceToDevice));
  hipGraph_t graph = nullptr;
  hipGraphNode_t node = nullptr;
  WORKS(hip::hipGraphCreate(&graph, 0));
  refused("hipGraphAddMemcpyNode1D", hip::hipGraphAddMemcpyNode1D(&node, graph, nullptr, 0, other.at(), word.at(),
                                                                  kMuch, hipMemcpyDeviceToDevice));
  return holds_if(taken.empty(), taken);
}

Finding buffer_ids_count_up() {
  unsigned last = 0;
  bool up = true;
  for (int i = 0; i < 4; ++i) {
    void* memory = nullptr;
    unsigned long long id = 0;  // as wide as any runtime writes
    WORKS(hip::hipMalloc(&memory, Word::kBytes));
    WORKS(hip::hipPointerGetAttribute(&id, HIP_POINTER_ATTRIBUTE_BUFFER_ID, memory));
    up = up && static_cast<unsigned>(id) > last;
    last = static_cast<unsigned>(id);
    WORKS(hip::hipFree(memory));
  }
  return holds_if(up);
}

Finding interior_free_is_refused() {
  void* memory = nullptr;
  WORKS(hip::hipMalloc(&memory, Word::kBytes));
  const hipError_t inside = hip::hipFree(static_cast<char*>(memory) + 64);
  if (inside != hipSuccess) return {Answer::kHolds, error_name(inside)};
  hipDeviceptr_t base = nullptr;
  std::size_t bytes = 0;
  const bool gone = hip::hipMemGetAddressRange(&base, &bytes, memory) != hipSuccess;
  return {Answer::kFails, gone ? "it frees all" : "it does nothing"};
}

Finding values_are_written() {
  needs_device_work();
  const Stream stream;
  void* memory = nullptr;
  WORKS(hip::hipExtMallocWithFlags(&memory, 8, hipMallocSignalMemory));
  auto* const word = static_cast<volatile std::uint64_t*>(memory);
  *word = 1;
  WORKS(hip::hipStreamWriteValue64(stream, memory, 5, 0));
  stream.wait();
  return holds_if(*word == 5);
}

// --- Virtual memory management ---

/// hipMemAllocationProp from 5.6 on, and before: the header has the order of one of them.
struct NewProperties {
  hipMemAllocationType type = hipMemAllocationTypePinned;
  hipMemAllocationHandleType handles{};
  hipMemLocation location{hipMemLocationTypeDevice, 0};
  void* meta_data = nullptr;
  unsigned flags = 0;
  unsigned char room[32] = {};
};
struct OldProperties {
  unsigned char compression = 0;
  hipMemLocation location{hipMemLocationTypeDevice, 0};
  hipMemAllocationHandleType handles{};
  hipMemAllocationType type = hipMemAllocationTypePinned;
  unsigned short usage = 0;
  void* meta_data = nullptr;
  unsigned char room[32] = {};
};

/// A reservation and memory for it. Every failure but that of what is asked means that it is not supported.
struct Chunk {
  void* start = nullptr;
  hipMemGenericAllocationHandle_t physical = nullptr;
  std::size_t bytes = std::size_t{2} << 20;

  explicit Chunk(int reserved = 1) {
    const bool older = runtime_version() < version_of(5, 6);
    if (older)
      create(OldProperties{});
    else
      create(NewProperties{});
    WORKS(hip::hipMemAddressReserve(&start, bytes * static_cast<std::size_t>(reserved), 0, nullptr, 0));
  }
  hipError_t map(std::size_t offset = 0) const {
    return hip::hipMemMap(static_cast<char*>(start) + offset, bytes, 0, physical, 0);
  }
  hipError_t allow(std::size_t offset = 0) const {
    hipMemAccessDesc access{};
    access.location = {hipMemLocationTypeDevice, 0};
    access.flags = hipMemAccessFlagsProtReadWrite;
    return hip::hipMemSetAccess(static_cast<char*>(start) + offset, bytes, &access, 1);
  }

 private:
  template <typename Properties>
  void create(const Properties& properties) {
    WORKS(hip::hipMemCreate(&physical, bytes, reinterpret_cast<const hipMemAllocationProp*>(&properties), 0));
  }
};

Finding mappings_work() {
  needs_device_work();
  const Chunk chunk;
  hipError_t result = chunk.map();
  if (result == hipSuccess) result = chunk.allow();
  if (result != hipSuccess) return {Answer::kFails, error_name(result)};
  int value = 23;
  WORKS(hip::hipMemcpy(chunk.start, &value, sizeof value, hipMemcpyHostToDevice));
  value = 0;
  WORKS(hip::hipMemcpy(&value, chunk.start, sizeof value, hipMemcpyDeviceToHost));
  if (value != 23) return {Answer::kFails, "it is no memory"};
  result = hip::hipMemUnmap(chunk.start, chunk.bytes);
  if (result == hipSuccess) result = hip::hipMemAddressFree(chunk.start, chunk.bytes);
  if (result == hipSuccess) result = hip::hipMemRelease(chunk.physical);
  return holds_if(result == hipSuccess, result == hipSuccess ? "" : error_name(result));
}

Finding parts_are_mapped() {
  const Chunk whole, chunk(2);
  works(whole.map(), "hipMemMap");
  hipError_t result = chunk.map(chunk.bytes);
  if (result == hipSuccess) result = chunk.allow(chunk.bytes);
  return holds_if(result == hipSuccess, result == hipSuccess ? "" : error_name(result));
}

Finding mapping_waits_for_nothing() {
  const Chunk chunk;
  const Stream stream;
  const Blocked blocked(stream, kMostOneWaits);
  works(chunk.map(), "hipMemMap");
  return holds_if(!blocked.released());
}

/// An exec that fills a word. Whoever asks ends soon: nothing is destroyed.
hipGraphExec_t exec_that_fills(const Word& word, int value) {
  const hipMemsetParams params = fill_params(word.at(), value);
  hipGraph_t graph = nullptr;
  hipGraphNode_t node = nullptr;
  hipGraphExec_t exec = nullptr;
  WORKS(hip::hipGraphCreate(&graph, 0));
  WORKS(hip::hipGraphAddMemsetNode(&node, graph, nullptr, 0, &params));
  WORKS(hip::hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  return exec;
}

Finding mapping_leaves_fills() {
  needs_device_work();
  const Word first, second;
  const Stream stream;
  const Chunk chunk, other;
  works(chunk.map(), "hipMemMap");  // where a map empties room of the runtime's, both execs come to its beginning
  const hipGraphExec_t exec = exec_that_fills(first, 1);
  works(other.map(), "hipMemMap");
  static_cast<void>(exec_that_fills(second, 2));
  WORKS(hip::hipGraphLaunch(exec, stream));
  WORKS(hip::hipStreamSynchronize(stream));
  const int written = first.value();
  return holds_if(written == 1, written == 1 ? "" : "it wrote " + std::to_string(written));
}

Finding mapping_tells_errors() {
  const Chunk chunk;
  works(chunk.map(), "hipMemMap");
  const hipError_t again = chunk.map();
  return holds_if(again != hipSuccess, again != hipSuccess ? "" : "a range is mapped twice");
}

Finding reservations_are_aligned() {
  constexpr std::size_t kAlignment = std::size_t{1} << 30;
  int aligned = 0;
  for (int i = 0; i < 4; ++i) {
    void* start = nullptr;
    WORKS(hip::hipMemAddressReserve(&start, std::size_t{2} << 20, kAlignment, nullptr, 0));
    if (reinterpret_cast<std::uintptr_t>(start) % kAlignment == 0) ++aligned;
  }
  return holds_if(aligned == 4);
}

Finding strange_mapping_is_refused() {
  { const Chunk works; }
  void* const strange = strange_address();
  const hipError_t unmapped = hip::hipMemUnmap(strange, 4096);
  const hipError_t freed = hip::hipMemAddressFree(strange, 4096);
  return holds_if(unmapped != hipSuccess && freed != hipSuccess);
}

Finding handles_of_mappings_are_refused() {
  const Chunk chunk;
  works(chunk.map(), "hipMemMap");
  works(chunk.allow(), "hipMemSetAccess");
  hipIpcMemHandle_t handle{};
  const hipError_t result = hip::hipIpcGetMemHandle(&handle, chunk.start);
  return holds_if(result != hipSuccess);
}

// --- Code objects ---

Finding code_is_known() {
  const std::vector<char>& code = compiled_code();
  const auto begins = [&](const char* magic) {
    return code.size() > std::strlen(magic) && std::memcmp(code.data(), magic, std::strlen(magic)) == 0;
  };
  if (begins("\177ELF")) return {Answer::kHolds, "an ELF file"};
  if (begins("__CLANG_OFFLOAD_BUNDLE__")) return {Answer::kHolds, "a bundle"};
  if (begins("CCOB")) return {Answer::kHolds, "a compressed bundle"};
  return {Answer::kFails, "something else"};
}

constexpr Probe kProbes[] = {
    {"last_error_goes_by_version", "A success takes the last error away before HIP 7, and leaves it from then on.",
     last_error_goes_by_version},
    {"device_type_goes_by_version", "Device memory is type 1 before HIP 6, and 2 from then on.",
     device_type_goes_by_version},
    {"driver_copies_go_by_version", "HIP_MEMCPY3D has sizes of 32 bits before HIP 6, and of 64 from then on.",
     driver_copies_go_by_version},
    {"driver_fills_go_by_version",
     "hipDrvGraphAddMemsetNode takes HIP_MEMSET_NODE_PARAMS before 7, hipMemsetParams from then on.",
     driver_fills_go_by_version},
    {"free_waits_for_streams", "hipFree returns when the work of the device's streams is done.",
     free_waits_for_streams},
    {"malloc_waits_for_nothing", "hipMalloc does not wait for the device's work.", malloc_waits_for_nothing},
    {"strange_address_is_refused",
     "An address the runtime never handed out is refused where it is freed or asked about.",
     strange_address_is_refused},
    {"operands_are_bounded", "Copies and fills beyond an allocation are refused, by calls and by nodes.",
     operands_are_bounded},
    {"buffer_ids_count_up", "HIP_POINTER_ATTRIBUTE_BUFFER_ID of each allocation is larger than that of the one before.",
     buffer_ids_count_up},
    {"interior_free_is_refused", "hipFree refuses an address inside an allocation.", interior_free_is_refused},
    {"values_are_written", "hipStreamWriteValue64 writes to signal memory, where the host sees it.",
     values_are_written},
    {"mappings_work", "Memory can be reserved, made, mapped, used and given back by the structures of its version.",
     mappings_work},
    {"parts_are_mapped", "A part of a reservation can be mapped.", parts_are_mapped},
    {"mapping_waits_for_nothing", "hipMemMap does not wait for the device's work.", mapping_waits_for_nothing},
    {"mapping_leaves_fills", "hipMemMap leaves alone what execs made before it fill with.", mapping_leaves_fills},
    {"mapping_tells_errors", "A range that is mapped already is refused.", mapping_tells_errors},
    {"reservations_are_aligned", "A reservation has the alignment that was asked for.", reservations_are_aligned},
    {"strange_mapping_is_refused", "Unmapping or freeing an address that was never reserved is refused.",
     strange_mapping_is_refused},
    {"handles_of_mappings_are_refused", "hipIpcGetMemHandle refuses mapped memory.", handles_of_mappings_are_refused,
     Kind::kRisky},
    {"code_is_known", "What hipRTC makes is an ELF file or an offload bundle.", code_is_known},
};

}  // namespace

std::span<const Probe> memory_probes() { return kProbes; }

}  // namespace probes
