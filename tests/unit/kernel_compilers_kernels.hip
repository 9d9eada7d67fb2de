// Kernels whose arguments need gaps, alignment, structures and templates; compiled by hipcc and by hipRTC.
struct Pair {
  int a;
  double b;
  char c;
};

extern "C" __global__ void mixed(char c, float* p, Pair s, short h, const double* q, unsigned char u) {
  p[threadIdx.x] = static_cast<float>(c + h + u + s.a + s.b + s.c + q[0]);
}

template <typename T>
__global__ void scale(T* p, T factor, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) p[i] *= factor;
}
template __global__ void scale<float>(float*, float, int);
template __global__ void scale<double>(double*, double, int);

#ifdef WITH_VARIABLE
__device__ int variable;
extern "C" __global__ void empty() { variable = 1; }
#else
extern "C" __global__ void empty() {}
#endif
