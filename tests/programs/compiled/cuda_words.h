// cuda_words.h: the words of the language that clang has in CUDA's headers, for kernels.hip without them.
#include <__clang_cuda_builtin_vars.h>

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
