// memory_view.cpp: prints what a program can see of device memory: error codes of right and wrong calls, memory
// information, address ranges, attributes, contents. Pointers are printed only as relations to the allocation asked
// about.
#include "program.h"

namespace {

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;

void show(const char* what, hipError_t result) { std::printf("%s: %s\n", what, hipGetErrorName(result)); }

template <typename Pointer>
char* shift(Pointer* pointer, std::ptrdiff_t bytes) {
  return static_cast<char*>(static_cast<void*>(pointer)) + bytes;
}

std::size_t free_memory() {
  std::size_t free = 0, total = 0;
  CHECK(hipMemGetInfo(&free, &total));
  return free;
}

char* bytes_of_device(std::size_t bytes) { return program::allocate<char>(bytes); }

void describe(const char* what, const char* base, const char* pointer) {
  hipPointerAttribute_t attributes{};
  const hipError_t result = hipPointerGetAttributes(&attributes, pointer);
  std::printf("%s: attributes %s", what, hipGetErrorName(result));
  if (result == hipSuccess) {
#if HIP_VERSION_MAJOR >= 6
    const int type = attributes.type;
#else
    const int type = attributes.memoryType;
#endif
    std::printf(" type %d device %d managed %d flags %u", type, attributes.device, attributes.isManaged,
                attributes.allocationFlags);
    const auto* const at = static_cast<const char*>(attributes.devicePointer);
    if (at == nullptr)
      std::printf(" nowhere");
    else
      std::printf(" at %td", at - base);
  }
  hipDeviceptr_t start = nullptr;
  std::size_t size = 0;
  const hipError_t range = hipMemGetAddressRange(&start, &size, const_cast<char*>(pointer));
  std::printf("; range %s", hipGetErrorName(range));
  if (range == hipSuccess) std::printf(" at %td size %zu", static_cast<const char*>(start) - base, size);
  std::printf("\n");
  static_cast<void>(hipGetLastError());
}

void allocations() {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{255}, 4 * kKiB, 4 * kKiB + 1, kMiB, 3 * kMiB + 17}) {
    const std::size_t before = free_memory();
    char* block = bytes_of_device(bytes);
    const std::size_t after = free_memory();
    CHECK(hipFree(block));
    std::printf("allocation of %zu: takes %zu, gives back %zu, aligned %d\n", bytes, before - after,
                free_memory() - after, reinterpret_cast<std::uintptr_t>(block) % 256 == 0);
  }
  void* pointer = &pointer;
  show("hipMalloc of nothing", hipMalloc(&pointer, 0));
  std::printf("its pointer is null: %d\n", pointer == nullptr);
  show("hipMalloc to nowhere", hipMalloc(static_cast<void**>(nullptr), 16));
  show("hipMalloc of everything", hipMalloc(&pointer, SIZE_MAX / 2));
  show("hipPeekAtLastError", hipPeekAtLastError());
  show("hipGetLastError", hipGetLastError());
  show("hipGetLastError again", hipGetLastError());
}

void frees() {
  int on_stack = 0;
  char* block = bytes_of_device(64 * kKiB);
  show("free of null", hipFree(nullptr));
  show("free of an interior pointer", hipFree(block + 256));
  show("free of the end", hipFree(block + 64 * kKiB));
  show("free of a host variable", hipFree(&on_stack));
  show("free", hipFree(block));
  show("free again", hipFree(block));
  describe("freed", block, block);
  show("copy from freed memory", hipMemcpy(&on_stack, block, sizeof on_stack, hipMemcpyDeviceToHost));
  void* host = nullptr;
  CHECK(hipHostMalloc(&host, 4 * kKiB, hipHostMallocDefault));
  show("hipHostFree of an interior pointer", hipHostFree(shift(host, 64)));
  show("hipHostFree", hipHostFree(host));
  show("hipHostFree again", hipHostFree(host));
  static_cast<void>(hipGetLastError());
}

void ranges() {
  char* block = bytes_of_device(10000);
  describe("base", block, block);
  describe("interior", block, block + 5000);
  describe("last byte", block, block + 9999);
  int on_stack = 0;
  hipPointerAttribute_t attributes{};
  show("attributes of a host variable", hipPointerGetAttributes(&attributes, &on_stack));
  for (const auto& [name, attribute] : {std::pair{"memory type", HIP_POINTER_ATTRIBUTE_MEMORY_TYPE},
                                        std::pair{"device", HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
                                        std::pair{"managed", HIP_POINTER_ATTRIBUTE_IS_MANAGED}}) {
    unsigned value = 0;
    const hipError_t result = hipPointerGetAttribute(&value, attribute, block + 16);
    std::printf("attribute %s: %s %u\n", name, hipGetErrorName(result), value);
  }
  std::size_t size = 0;
  show("attribute range size", hipPointerGetAttribute(&size, HIP_POINTER_ATTRIBUTE_RANGE_SIZE, block + 16));
  std::printf("its value: %zu\n", size);
  CHECK(hipFree(block));
  static_cast<void>(hipGetLastError());
}

void bounds() {
  constexpr std::size_t kBytes = 100 * kKiB;
  char* first = bytes_of_device(kBytes);
  char* second = bytes_of_device(kBytes);
  std::vector<char> host(4 * kMiB);
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreate(&stream));
  for (const std::size_t over : {std::size_t{0}, std::size_t{1}, 4 * kKiB, kMiB}) {
    std::printf("%zu bytes over the end:\n", over);
    const std::size_t bytes = kBytes + over;
    show("  copy in", hipMemcpy(first, host.data(), bytes, hipMemcpyHostToDevice));
    show("  copy in, last half", hipMemcpy(first + kBytes / 2, host.data(), kBytes / 2 + over, hipMemcpyHostToDevice));
    show("  copy out", hipMemcpy(host.data(), first, bytes, hipMemcpyDeviceToHost));
    show("  copy on the device", hipMemcpy(second, first, bytes, hipMemcpyDeviceToDevice));
    show("  copy, asynchronous", hipMemcpyAsync(second, first, bytes, hipMemcpyDeviceToDevice, stream));
    show("  fill", hipMemset(first, 1, bytes));
    show("  fill, asynchronous", hipMemsetAsync(first, 1, bytes, stream));
    show("  fill of words", hipMemsetD32(first, 1, bytes / 4));
    show("  copy of rows",
         hipMemcpy2D(second, 1024, first, 1024, 1024, bytes / 1024 + (bytes % 1024 != 0), hipMemcpyDeviceToDevice));
  }
  show("copy to null", hipMemcpy(nullptr, host.data(), 16, hipMemcpyHostToDevice));
  show("copy of nothing", hipMemcpy(first, host.data(), 0, hipMemcpyHostToDevice));
  CHECK(hipStreamSynchronize(stream));
  CHECK(hipStreamDestroy(stream));
  CHECK(hipFree(first));
  CHECK(hipFree(second));
  static_cast<void>(hipGetLastError());
}

void forms() {
  void* pointer = nullptr;
  std::size_t pitch = 0;
  show("hipMallocPitch", hipMallocPitch(&pointer, &pitch, 1000, 30));
  std::printf("pitch %zu\n", pitch);
  describe("pitched", static_cast<char*>(pointer), shift(pointer, 10));
  show("free of pitched memory", hipFree(pointer));
  hipPitchedPtr box{};
  show("hipMalloc3D", hipMalloc3D(&box, hipExtent{100, 20, 5}));
  std::printf("pitch %zu width %zu height %zu\n", box.pitch, box.xsize, box.ysize);
  show("free of a box", hipFree(box.ptr));

  hipStream_t stream = nullptr;
  CHECK(hipStreamCreate(&stream));
  char* block = bytes_of_device(8 * kKiB);
  show("hipFreeAsync of hipMalloc memory", hipFreeAsync(block, stream));
  CHECK(hipStreamSynchronize(stream));
  show("free after hipFreeAsync", hipFree(block));
  show("hipMallocAsync", hipMallocAsync(&pointer, 8 * kKiB, stream));
  show("fill of stream-ordered memory", hipMemsetAsync(pointer, 0, 8 * kKiB, stream));
  show("hipFreeAsync", hipFreeAsync(pointer, stream));
  CHECK(hipStreamSynchronize(stream));

  block = bytes_of_device(4 * kKiB);
  hipGraph_t graph = nullptr;
  CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  show("hipMalloc in a capture", hipMalloc(&pointer, kKiB));
  show("end of that capture", hipStreamEndCapture(stream, &graph));
  CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  show("hipFree in a capture", hipFree(block));
  show("end of that capture", hipStreamEndCapture(stream, &graph));
  CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  show("hipMemcpy in a capture", hipMemcpy(block, &pitch, sizeof pitch, hipMemcpyHostToDevice));
  show("end of that capture", hipStreamEndCapture(stream, &graph));
  show("free", hipFree(block));
  CHECK(hipStreamDestroy(stream));
  static_cast<void>(hipGetLastError());
}

/// Buffers of many sizes come and go; each holds its own pattern to the last byte as long as it lives.
void contents(int steps) {
  struct Block {
    char* device;
    std::size_t bytes;
    int pattern;
  };
  std::vector<Block> blocks;
  program::Random random(7);
  std::size_t checked = 0, wrong = 0;
  const auto verify = [&](const Block& block) {
    for (const char value : program::download(block.device, block.bytes))
      wrong += value != static_cast<char>(block.pattern);
    checked += block.bytes;
  };
  const std::size_t before = free_memory();
  for (int i = 0; i < 40 * steps; ++i) {
    if (blocks.size() > 12 || (!blocks.empty() && random.next() % 3 == 0)) {
      const std::size_t victim = random.next() % blocks.size();
      verify(blocks[victim]);
      CHECK(hipFree(blocks[victim].device));
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(victim));
    } else {
      const std::size_t bytes = 1 + random.next() % (random.next() % 4 == 0 ? 256 * kKiB : 8 * kKiB);
      blocks.push_back({bytes_of_device(bytes), bytes, i % 251});
      CHECK(hipMemset(blocks.back().device, blocks.back().pattern, bytes));
    }
  }
  std::printf("alive: %zu blocks, memory taken %zu\n", blocks.size(), before - free_memory());
  for (const Block& block : blocks) {
    verify(block);
    CHECK(hipFree(block.device));
  }
  std::printf("checked %zu bytes, wrong %zu, memory taken %zu\n", checked, wrong, before - free_memory());
}

void exhaustion() {
  std::size_t free = 0, total = 0;
  CHECK(hipMemGetInfo(&free, &total));
  std::vector<void*> blocks;
  void* pointer = nullptr;
  hipError_t result = hipSuccess;
  while (blocks.size() < 100 && (result = hipMalloc(&pointer, total / 10 / kMiB * kMiB)) == hipSuccess)
    blocks.push_back(pointer);
  std::printf("blocks of a tenth of the memory: %zu, then %s\n", blocks.size(), hipGetErrorName(result));
  for (void* block : blocks) CHECK(hipFree(block));
  static_cast<void>(hipGetLastError());
  const hipError_t large = hipMalloc(&pointer, total / 10 * 7 / kMiB * kMiB);
  show("seven tenths after freeing them", large);
  if (large == hipSuccess) CHECK(hipFree(pointer));
  std::printf("memory as before: %d\n", free == free_memory());
  static_cast<void>(hipGetLastError());
}

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv, {{"steps", "4"}, {"times", ""}});
  CHECK(hipSetDevice(0));
  allocations();
  frees();
  ranges();
  bounds();
  forms();
  contents(options.number("steps"));
  exhaustion();
  return 0;
}
