// kernel_sources.h: the kernels of the tests, each with what is asked of hiprtc. rtc_test.cpp compares what the CPU
// runtime says of every one of them with what AMD's compiler says.
#pragma once

#include <string>
#include <vector>

struct KernelSource {
  const char* name;
  const char* text;
  std::vector<std::string> expressions;
};

inline const std::vector<KernelSource>& kernel_sources() {
  static const std::vector<KernelSource> sources = {
      {"basic",
       R"(
struct Pair { float a; double b; };
struct Odd { char c[3]; };
extern "C" __global__ void axpy(float* __restrict__ y, const float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void mixed(char c, Pair p, float4 v, float3 w, Odd o, bool b, double* d, unsigned long long u,
                                 short s) {
  d[0] = c;
  d[1] = p.a + p.b;
  d[2] = v.x + v.y + v.z + v.w;
  d[3] = w.x + w.y + w.z;
  d[4] = o.c[0] + o.c[1] + o.c[2];
  d[5] = b;
  d[6] = u;
  d[7] = s;
}
extern "C" __global__ void nothing() {}
extern "C" __global__ void vectors(char2 a, uchar3 b, short4 c, int2 d, uint3 e, double2 f, longlong3 g, float2* out) {
  out[0] = make_float2(a.x + b.z + c.w, d.y + e.z + f.y + g.z);
}
extern "C" __global__ void places(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}
extern "C" __global__ void __launch_bounds__(64, 2) bounded(int* out) { out[threadIdx.x] = threadIdx.x; }
)",
       {}},
      {"barriers",
       R"(
extern "C" __global__ void reverse(int* data) {
  __shared__ int tile[256];
  tile[threadIdx.x] = data[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  data[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void sum(const float* in, float* out, int n) {
  extern __shared__ float part[];
  float mine = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) mine += in[i];
  part[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[0] = part[0];
}
extern "C" __global__ void early(int* data, int n) {
  __shared__ int tile[64];
  if ((int)threadIdx.x >= n) return;
  tile[threadIdx.x] = data[threadIdx.x] * 2;
  __syncthreads();
  data[threadIdx.x] = tile[n - 1 - threadIdx.x];
}
__device__ int deep(int n) {
  volatile int room[64];
  room[n & 63] = n;
  return n == 0 ? 0 : room[n & 63] - n + 1 + deep(n - 1);
}
extern "C" __global__ void stacks(int* out) {
  int before = deep(40);
  __syncthreads();
  out[threadIdx.x] = before + deep(40) + (int)threadIdx.x;
}
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float ta[8][8], tb[8][8];
  const int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 8 + threadIdx.x;
  float total = 0;
  for (int t = 0; t < n; t += 8) {
    ta[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
    tb[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < 8; ++k) total += ta[threadIdx.y][k] * tb[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = total;
}
)",
       {}},
      {"templates",
       R"(
namespace shop {
template <typename T>
struct Box {
  T value;
  int count;
};
template <typename T, int N>
__global__ void __launch_bounds__(128) scale(T* p, Box<T> by) {
  __shared__ T tile[N];
  tile[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = tile[N - 1 - threadIdx.x] * by.value + by.count;
}
namespace inner {
__global__ void plain(int* p, Box<char> b) { p[0] = b.value + b.count; }
}  // namespace inner
}  // namespace shop
__device__ int counter;
__constant__ float table[4] = {1, 2, 3, 4};
template <typename T>
__global__ void lookup(T* out) {
  out[threadIdx.x] = table[threadIdx.x & 3] + (T)atomicAdd(&counter, 1) * 0;
}
)",
       {"shop::scale<float, 64>", "&shop::scale<double, 32>", "shop::inner::plain", "lookup<double>", "&counter",
        "table"}},
      {"devices",
       R"(
__device__ int mine;
__device__ double wide[3] = {1.5, 2.5, 3.5};
extern "C" __global__ void bump(int by) { atomicAdd(&mine, by); }
extern "C" __global__ void read_mine(int* out) { out[0] = mine; }
extern "C" __global__ void read_wide(double* out) { out[threadIdx.x] = wide[threadIdx.x]; }
)",
       {}},
      {"inside",
       R"(
struct Inside { int* p; int value; };
extern "C" __global__ void inside(Inside x) { x.p[0] = x.value; }
extern "C" __global__ void outside(int* p, int value) { p[0] = value; }
)",
       {}},
      {"waiting",
       R"(
extern "C" __global__ void gate(volatile int* flag, int wanted) {
  while (*flag != wanted) __builtin_amdgcn_s_sleep(1);
}
extern "C" __global__ void meet(volatile int* mine, volatile int* other) {
  *mine = 1;
  __threadfence_system();
  while (*other == 0) __builtin_amdgcn_s_sleep(1);
}
extern "C" __global__ void store(int* out, int value) { out[0] = value; }
)",
       {}},
      {"mathematics",
       R"(
extern "C" __global__ void functions(float* f, double* d, int* i) {
  f[0] = expf(1.0f);
  f[1] = __expf(0.5f) + sqrtf(2.0f) + rsqrtf(4.0f);
  f[2] = fmaxf(1.0f, 2.0f) + fminf(1.0f, 2.0f) + fabsf(-3.0f);
  f[3] = tanhf(0.25f) + powf(2.0f, 3.0f) + floorf(1.5f);
  f[4] = max(f[0], f[1]) + min(1.0f, 2.0f);
  d[0] = exp(1.0) + sqrt(2.0) + fma(2.0, 3.0, 4.0);
  i[0] = max(3, 4) + min(3, 4) + abs(-5) + __popc(255u) + __clz(1) + __ffs(8);
  i[1] = __float_as_int(1.0f);
  float4 v = make_float4(1, 2, 3, 4);
  v += make_float4(1, 1, 1, 1);
  v = v * 2.0f;
  i[2] = (int)(v.x + v.y + v.z + v.w);
}
extern "C" __global__ void atomics(unsigned* u, int* i, float* f, unsigned long long* l) {
  atomicAdd(&u[0], 1u);
  atomicMax(&u[1], threadIdx.x);
  atomicMin(&i[0], -(int)threadIdx.x);
  atomicAdd(&f[0], 0.5f);
  atomicAdd(l, 2ull);
  atomicOr(&u[2], 1u << (threadIdx.x & 31));
  atomicCAS(&i[1], 0, 7);
  atomicExch(&i[2], 9);
}
)",
       {}},
      {"printing",
       R"(
extern "C" __global__ void say(int* p, int n) { printf("%d %d\n", p[0], n); }
)",
       {}},
  };
  return sources;
}

inline const KernelSource& kernel_source(const std::string& name) {
  for (const KernelSource& source : kernel_sources())
    if (name == source.name) return source;
  __builtin_trap();
}
