// transformer_kernels.h: the kernels of transformer.cpp, compiled by hipRTC. One thread an output element, or one block
// a row where a row is reduced; no atomics, every sum in a fixed order, so results are the same bits in every run.
#pragma once

inline constexpr char kTransformerKernels[] = R"(
#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

// Sum (or maximum) over the block, blockDim.x a power of two up to 64, given to all threads.
__device__ float block_sum(float value) {
  __shared__ float parts[64];
  parts[threadIdx.x] = value;
  __syncthreads();
  for (unsigned width = blockDim.x / 2; width > 0; width /= 2) {
    if (threadIdx.x < width) parts[threadIdx.x] += parts[threadIdx.x + width];
    __syncthreads();
  }
  float sum = parts[0];
  __syncthreads();
  return sum;
}

__device__ float block_max(float value) {
  __shared__ float parts[64];
  parts[threadIdx.x] = value;
  __syncthreads();
  for (unsigned width = blockDim.x / 2; width > 0; width /= 2) {
    if (threadIdx.x < width && parts[threadIdx.x + width] > parts[threadIdx.x]) {
      parts[threadIdx.x] = parts[threadIdx.x + width];
    }
    __syncthreads();
  }
  float maximum = parts[0];
  __syncthreads();
  return maximum;
}

extern "C" __global__ void embed(float* out, const int* tokens, const float* table, const float* positions, int rows,
                                 int sequence, int dim) {
  int i = INDEX;
  if (i >= rows * dim) return;
  int row = i / dim, column = i % dim;
  out[i] = table[tokens[row] * dim + column] + positions[(row % sequence) * dim + column];
}

// Adds to d_table: a thread an element, over all rows in order.
extern "C" __global__ void embed_backward(float* d_table, const int* tokens, const float* d_out, int rows, int vocabulary,
                                          int dim) {
  int i = INDEX;
  if (i >= vocabulary * dim) return;
  int token = i / dim, column = i % dim;
  for (int row = 0; row < rows; ++row) {
    if (tokens[row] == token) d_table[i] += d_out[row * dim + column];
  }
}

extern "C" __global__ void position_backward(float* d_positions, const float* d_out, int batch, int sequence, int dim) {
  int i = INDEX;
  if (i >= sequence * dim) return;
  float sum = 0;
  for (int b = 0; b < batch; ++b) sum += d_out[b * sequence * dim + i];
  d_positions[i] = sum;
}

extern "C" __global__ void layer_norm(float* out, float* mean, float* inverse, const float* in, const float* gain,
                                      const float* bias, int dim) {
  const float* x = in + blockIdx.x * dim;
  float sum = 0;
  for (int j = threadIdx.x; j < dim; j += blockDim.x) sum += x[j];
  float m = block_sum(sum) / dim;
  float squares = 0;
  for (int j = threadIdx.x; j < dim; j += blockDim.x) squares += (x[j] - m) * (x[j] - m);
  float r = 1.0f / sqrtf(block_sum(squares) / dim + 1e-5f);
  for (int j = threadIdx.x; j < dim; j += blockDim.x) out[blockIdx.x * dim + j] = (x[j] - m) * r * gain[j] + bias[j];
  if (threadIdx.x == 0) {
    mean[blockIdx.x] = m;
    inverse[blockIdx.x] = r;
  }
}

// d_in = gradient through the normalisation + residual.
extern "C" __global__ void layer_norm_backward(float* d_in, const float* d_out, const float* in, const float* mean,
                                               const float* inverse, const float* gain, const float* residual, int dim) {
  int row = blockIdx.x;
  float m = mean[row], r = inverse[row], sum = 0, product = 0;
  for (int j = threadIdx.x; j < dim; j += blockDim.x) {
    float d = d_out[row * dim + j] * gain[j];
    sum += d;
    product += d * (in[row * dim + j] - m) * r;
  }
  sum = block_sum(sum) / dim;
  product = block_sum(product) / dim;
  for (int j = threadIdx.x; j < dim; j += blockDim.x) {
    int i = row * dim + j;
    float d = r * (d_out[i] * gain[j] - sum - (in[i] - m) * r * product);
    d_in[i] = residual ? residual[i] + d : d;
  }
}

extern "C" __global__ void layer_norm_backward_parameters(float* d_gain, float* d_bias, const float* d_out, const float* in,
                                                          const float* mean, const float* inverse, int rows, int dim) {
  int j = INDEX;
  if (j >= dim) return;
  float g = 0, b = 0;
  for (int row = 0; row < rows; ++row) {
    float d = d_out[row * dim + j];
    g += d * (in[row * dim + j] - mean[row]) * inverse[row];
    b += d;
  }
  d_gain[j] = g;
  d_bias[j] = b;
}

// c[m, n] = a[m, k] b[k, n] + bias[n] + residual[m, n]; strides in elements say how a and b lie; bias, residual may be null.
extern "C" __global__ void matmul(float* c, const float* a, const float* b, const float* bias, const float* residual, int m,
                                  int n, int k, int a_row, int a_column, int b_row, int b_column) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= m || j >= n) return;
  float sum = 0;
  for (int l = 0; l < k; ++l) sum += a[i * a_row + l * a_column] * b[l * b_row + j * b_column];
  if (bias) sum += bias[j];
  if (residual) sum += residual[i * n + j];
  c[i * n + j] = sum;
}

extern "C" __global__ void column_sum(float* out, const float* in, int rows, int columns) {
  int j = INDEX;
  if (j >= columns) return;
  float sum = 0;
  for (int i = 0; i < rows; ++i) sum += in[i * columns + j];
  out[j] = sum;
}

// Attention. qkv[batch * sequence, 3 * dim]: query, key and value of a row side by side, each heads * width.
// Scores and probabilities: [batch, heads, sequence, sequence].
extern "C" __global__ void attention_scores(float* scores, const float* qkv, int batch, int sequence, int heads, int width,
                                            float scale) {
  int x = INDEX;
  if (x >= batch * heads * sequence * sequence) return;
  int j = x % sequence, i = x / sequence % sequence, h = x / (sequence * sequence) % heads;
  int b = x / (sequence * sequence * heads), dim = heads * width;
  const float* q = qkv + (b * sequence + i) * 3 * dim + h * width;
  const float* k = qkv + (b * sequence + j) * 3 * dim + dim + h * width;
  float sum = 0;
  for (int d = 0; d < width; ++d) sum += q[d] * k[d];
  scores[x] = j <= i ? sum * scale : -1e30f;
}

extern "C" __global__ void softmax(float* out, const float* in, int columns) {
  const float* x = in + blockIdx.x * columns;
  float maximum = -1e30f;
  for (int j = threadIdx.x; j < columns; j += blockDim.x) maximum = x[j] > maximum ? x[j] : maximum;
  maximum = block_max(maximum);
  float sum = 0;
  for (int j = threadIdx.x; j < columns; j += blockDim.x) sum += expf(x[j] - maximum);
  sum = block_sum(sum);
  for (int j = threadIdx.x; j < columns; j += blockDim.x) out[blockIdx.x * columns + j] = expf(x[j] - maximum) / sum;
}

extern "C" __global__ void softmax_backward(float* d_in, const float* d_out, const float* out, int columns, float scale) {
  int row = blockIdx.x * columns;
  float sum = 0;
  for (int j = threadIdx.x; j < columns; j += blockDim.x) sum += d_out[row + j] * out[row + j];
  sum = block_sum(sum);
  for (int j = threadIdx.x; j < columns; j += blockDim.x) d_in[row + j] = out[row + j] * (d_out[row + j] - sum) * scale;
}

extern "C" __global__ void attend(float* out, const float* probabilities, const float* qkv, int batch, int sequence,
                                  int heads, int width) {
  int x = INDEX, dim = heads * width;
  if (x >= batch * sequence * dim) return;
  int column = x % dim, i = x / dim % sequence, b = x / (dim * sequence), h = column / width;
  const float* p = probabilities + ((b * heads + h) * sequence + i) * sequence;
  float sum = 0;
  for (int j = 0; j <= i; ++j) sum += p[j] * qkv[(b * sequence + j) * 3 * dim + 2 * dim + column];
  out[x] = sum;
}

extern "C" __global__ void attend_backward(float* d_probabilities, const float* d_out, const float* qkv, int batch,
                                           int sequence, int heads, int width) {
  int x = INDEX;
  if (x >= batch * heads * sequence * sequence) return;
  int j = x % sequence, i = x / sequence % sequence, h = x / (sequence * sequence) % heads;
  int b = x / (sequence * sequence * heads), dim = heads * width;
  const float* d = d_out + (b * sequence + i) * dim + h * width;
  const float* v = qkv + (b * sequence + j) * 3 * dim + 2 * dim + h * width;
  float sum = 0;
  for (int c = 0; c < width; ++c) sum += d[c] * v[c];
  d_probabilities[x] = j <= i ? sum : 0.0f;
}

extern "C" __global__ void qkv_backward(float* d_qkv, const float* d_scores, const float* probabilities, const float* d_out,
                                        const float* qkv, int batch, int sequence, int heads, int width) {
  int x = INDEX, dim = heads * width;
  if (x >= batch * sequence * 3 * dim) return;
  int column = x % dim, part = x / dim % 3, row = x / (3 * dim) % sequence, b = x / (3 * dim * sequence);
  int matrix = (b * heads + column / width) * sequence * sequence, first = b * sequence;
  float sum = 0;
  if (part == 0) {
    for (int j = 0; j <= row; ++j) sum += d_scores[matrix + row * sequence + j] * qkv[((first + j) * 3 + 1) * dim + column];
  } else if (part == 1) {
    for (int i = row; i < sequence; ++i) sum += d_scores[matrix + i * sequence + row] * qkv[(first + i) * 3 * dim + column];
  } else {
    for (int i = row; i < sequence; ++i) sum += probabilities[matrix + i * sequence + row] * d_out[(first + i) * dim + column];
  }
  d_qkv[x] = sum;
}

extern "C" __global__ void gelu(float* out, const float* in, int n) {
  int i = INDEX;
  if (i >= n) return;
  float x = in[i];
  out[i] = 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

extern "C" __global__ void gelu_backward(float* d_in, const float* d_out, const float* in, int n) {
  int i = INDEX;
  if (i >= n) return;
  float x = in[i], t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
  float slope = 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * 0.7978845608f * (1.0f + 0.134145f * x * x);
  d_in[i] = d_out[i] * slope;
}

// Gradient and loss of softmax + cross entropy, a row a block.
extern "C" __global__ void cross_entropy(float* d_logits, float* losses, const float* logits, const int* targets,
                                         int columns, float scale) {
  const float* x = logits + blockIdx.x * columns;
  float maximum = -1e30f;
  for (int j = threadIdx.x; j < columns; j += blockDim.x) maximum = x[j] > maximum ? x[j] : maximum;
  maximum = block_max(maximum);
  float sum = 0;
  for (int j = threadIdx.x; j < columns; j += blockDim.x) sum += expf(x[j] - maximum);
  sum = block_sum(sum);
  int target = targets[blockIdx.x];
  for (int j = threadIdx.x; j < columns; j += blockDim.x) {
    d_logits[blockIdx.x * columns + j] = (expf(x[j] - maximum) / sum - (j == target ? 1.0f : 0.0f)) * scale;
  }
  if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) + maximum - x[target];
}

extern "C" __global__ void mean(float* out, const float* in, int n) {
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += in[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) out[0] = sum / n;
}

// schedule = {learning rate, 0.9 to the power of the step, 0.999 to the power of the step}: on the device, so that a
// graph replayed as it is takes the next step.
extern "C" __global__ void advance(float* schedule) {
  if (INDEX != 0) return;
  schedule[0] *= 0.99f;
  schedule[1] *= 0.9f;
  schedule[2] *= 0.999f;
}

extern "C" __global__ void adamw(float* weight, float* first, float* second, const float* gradient, const float* schedule,
                                 float decay, int n) {
  int i = INDEX;
  if (i >= n) return;
  float g = gradient[i];
  float m = first[i] = 0.9f * first[i] + 0.1f * g;
  float v = second[i] = 0.999f * second[i] + 0.001f * g * g;
  float step = m / (1.0f - schedule[1]) / (sqrtf(v / (1.0f - schedule[2])) + 1e-8f);
  weight[i] -= schedule[0] * (step + decay * weight[i]);
}
)";
