// Memory in all the ways a program asks for it: freed in other orders, in stream order, from pools, more than fits at
// once.
#include "failing.h"

namespace {

constexpr int kSteps = 5;
constexpr std::size_t kKiB = 1024;

char* allocated(std::size_t bytes) {
  void* memory = nullptr;
  return CALL(hipMalloc, &memory, bytes) ? static_cast<char*>(memory) : nullptr;
}
void freed(void* memory) {
  if (memory != nullptr && !CALL(hipFree, memory)) CALL(hipFree, memory);
}

void blocks(int step, hipStream_t stream) {
  const std::size_t sizes[] = {4 * kKiB, 100, 64 * kKiB, 300 * kKiB, 4 * kKiB, 300 * kKiB};
  char* at[6];
  unsigned long sum = 0;
  for (int i = 0; i < 6; ++i) {
    at[i] = allocated(sizes[i]);
    if (at[i] != nullptr) CALL(hipMemsetAsync, at[i], step + i, sizes[i], stream);
  }
  if (at[0] != nullptr && at[4] != nullptr) CALL(hipMemcpyAsync, at[0], at[4], 100, hipMemcpyDeviceToDevice, stream);
  CALL(hipStreamSynchronize, stream);
  for (int i = 0; i < 6; ++i) sum = sum * 7 + (at[i] == nullptr ? 0 : failing::sum_of(at[i], 100));
  for (int i = 0; i < 6; ++i) {
    if (at[i] != nullptr && i % 2 == 1) CALL(hipMemsetAsync, at[i], 1, 100, stream);
    freed(at[(i * 5 + step) % 6]);
    at[(i * 5 + step) % 6] = nullptr;
  }
  failing::result(step, "blocks", sum);
}

/// Twice what is left when the blocks of before are kept: they must go first.
void much(int step) {
  char* const memory = allocated(3 * 1024 * kKiB);
  unsigned long sum = 0;
  if (memory != nullptr) {
    CALL(hipMemset, memory, step, 3 * 1024 * kKiB);
    sum = failing::sum_of(memory, 4 * kKiB);
  }
  std::size_t free_bytes = 0, total = 0;
  if (CALL(hipMemGetInfo, &free_bytes, &total)) sum += free_bytes;
  freed(memory);
  failing::result(step, "much", sum);
}

void in_stream_order(int step, hipStream_t stream, hipMemPool_t pool) {
  char* first = nullptr;
  char* second = nullptr;
  unsigned long sum = 0;
  if (!CALL(hipMallocAsync, reinterpret_cast<void**>(&first), 64 * kKiB, stream)) first = nullptr;
  if (first != nullptr) CALL(hipMemsetAsync, first, step, 64 * kKiB, stream);
  if (!CALL(hipMallocFromPoolAsync, reinterpret_cast<void**>(&second), 8 * kKiB, pool, stream)) second = nullptr;
  if (second != nullptr) CALL(hipMemsetAsync, second, step + 1, 8 * kKiB, stream);
  if (first != nullptr && second != nullptr)
    CALL(hipMemcpyAsync, first + 100, second, 100, hipMemcpyDeviceToDevice, stream);
  CALL(hipStreamSynchronize, stream);
  if (first != nullptr) sum = failing::sum_of(first, 300);
  if (first != nullptr && !CALL(hipFreeAsync, first, stream)) CALL(hipFree, first);
  if (second != nullptr && !CALL(hipFreeAsync, second, stream)) CALL(hipFree, second);
  CALL(hipStreamSynchronize, stream);
  failing::result(step, "in stream order", sum);
}

void other_kinds(int step) {
  void* host = nullptr;
  void* managed = nullptr;
  void* pitched = nullptr;
  std::size_t pitch = 0;
  unsigned long sum = 0;
  if (!CALL(hipHostMalloc, &host, 4 * kKiB, 0)) host = nullptr;
  if (!CALL(hipMallocManaged, &managed, 4 * kKiB, hipMemAttachGlobal)) managed = nullptr;
  if (!CALL(hipMallocPitch, &pitched, &pitch, 100, 10)) pitched = nullptr;
  if (managed != nullptr) {
    CALL(hipMemset, managed, step, 4 * kKiB);
    sum = failing::sum_of(managed, 4 * kKiB);
  }
  if (pitched != nullptr) {
    CALL(hipMemset2D, pitched, pitch, step, 100, 10);
    sum += failing::sum_of(pitched, 100);
  }
  if (host != nullptr && !CALL(hipHostFree, host)) CALL(hipHostFree, host);
  freed(managed);
  freed(pitched);
  failing::result(step, "other kinds", sum);
}

}  // namespace

int main() {
  hipStream_t stream = nullptr;
  if (!CALL(hipStreamCreate, &stream)) return 0;
  hipMemPool_t pool = nullptr;
  if (!CALL(hipDeviceGetDefaultMemPool, &pool, 0)) return 0;
  for (int step = 0; step < kSteps; ++step) {
    blocks(step, stream);
    in_stream_order(step, stream, pool);
    if (step % 2 == 1) much(step);
    if (step == 2) other_kinds(step);
  }
  if (!CALL(hipStreamDestroy, stream)) CALL(hipStreamDestroy, stream);
  failing::held();
  return 0;
}
