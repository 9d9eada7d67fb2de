// kernels.hip: the kernels of compiled.hip. No header is needed but the language's own words (__global__, threadIdx,
// ...), so the file compiles for AMD's processors, for the CPU runtime and for CUDA; the host side sees it for the
// declarations.

/// Coefficients of the polynomial, set by the host.
__device__ float coefficients[4];

struct Range {
  int first, last;
  float weight;
};

__global__ void polynomial(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int k = 3; k >= 0; --k) sum = sum * in[i] + coefficients[k];
  out[i] = sum;
}

/// A structure by value, between arguments of other sizes.
__global__ void weigh(char sign, float* values, Range range, short step, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || i < range.first || i >= range.last || (i - range.first) % step != 0) return;
  values[i] *= sign < 0 ? -range.weight : range.weight;
}

template <typename Element, int kWidth>
__global__ void block_prefix(Element* out, const Element* in, int n) {
  __shared__ Element parts[kWidth];
  int i = blockIdx.x * kWidth + threadIdx.x;
  parts[threadIdx.x] = i < n ? in[i] : Element(0);
  __syncthreads();
  for (int distance = 1; distance < kWidth; distance *= 2) {
    Element add = int(threadIdx.x) >= distance ? parts[threadIdx.x - distance] : Element(0);
    __syncthreads();
    parts[threadIdx.x] += add;
    __syncthreads();
  }
  if (i < n) out[i] = parts[threadIdx.x];
}
template __global__ void block_prefix<float, 64>(float*, const float*, int);
template __global__ void block_prefix<unsigned, 32>(unsigned*, const unsigned*, int);
