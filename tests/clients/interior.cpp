// Programs that keep an address inside an allocation only (aligned by hand, or behind a header) and free by that: AMD's
// runtime frees the whole allocation. What is freed is gone: memory is given back once, freed addresses are unknown,
// and the next allocation is whole.
#include "client.h"

using namespace program;

namespace {

constexpr std::size_t kBytes = 1 << 20;

std::size_t free_memory() {
  std::size_t free = 0, total = 0;
  CHECK(hipMemGetInfo(&free, &total));
  return free;
}

void show(const char* what, hipError_t result, std::size_t before) {
  std::printf("%s: %s, free memory grew by %zd\n", what, hipGetErrorName(result),
              static_cast<ssize_t>(free_memory() - before));
}

void use(char* memory, int value) {
  CHECK(hipMemset(memory, value, kBytes));
  const std::vector<char> seen = download(memory, kBytes);
  std::size_t wrong = 0;
  for (const char each : seen) wrong += each != static_cast<char>(value);
  std::printf("filled with %d, wrong %zu\n", value, wrong);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "5"}});
  const hipStream_t stream = new_stream();
  std::vector<char*> neighbours;
  for (int step = 0; step < options.number("steps"); ++step) {
    for (const std::ptrdiff_t inside :
         {std::ptrdiff_t{1}, std::ptrdiff_t{256}, static_cast<std::ptrdiff_t>(kBytes - 1)}) {
      char* const memory = allocate<char>(kBytes);
      use(memory, step + 1);
      std::size_t before = free_memory();
      show("free of the address inside", hipFree(memory + inside), before);
      before = free_memory();
      show("free of the address inside again", hipFree(memory + inside), before);
      show("free of the allocation", hipFree(memory), before);

      char* const in_order = allocate<char>(kBytes);
      before = free_memory();
      const hipError_t freed = hipFreeAsync(in_order + inside, stream);
      CHECK(hipStreamSynchronize(stream));
      show("free in stream order", freed, before);
      show("free of the allocation", hipFree(in_order), free_memory());

      void* pinned = nullptr;
      CHECK(hipHostMalloc(&pinned, kBytes, hipHostMallocDefault));
      show("free of host memory", hipHostFree(static_cast<char*>(pinned) + inside), free_memory());
      show("free of it again", hipHostFree(pinned), free_memory());
    }
    neighbours.push_back(allocate<char>(kBytes));
    use(neighbours.back(), step);
  }
  for (char* const each : neighbours) CHECK(hipFree(each));
  CHECK(hipStreamDestroy(stream));
}
