// matrix.hip: products of matrices by the device's own instructions for them (MFMA), one wave a tile of the result,
// captured and launched anew in each step over fresh memory. Elements are small whole numbers, so that every sum is
// exact and has to be the host's.
#include <hip/hip_runtime.h>

#include <tuple>
#include <vector>

#include "../programs/program.h"

namespace {

template <typename Element, int kCount>
using Lanes = Element __attribute__((ext_vector_type(kCount)));

/// bfloat16: the upper half of a float.
struct Brain {
  short bits;
  Brain() = default;
  explicit Brain(int number) {
    const auto value = static_cast<float>(number);
    int whole = 0;
    std::memcpy(&whole, &value, sizeof whole);
    bits = static_cast<short>(whole >> 16);
  }
};

#ifdef __HIP_DEVICE_COMPILE__
#define MULTIPLY(operation) sums = __builtin_amdgcn_mfma_##operation(a, b, sums, 0, 0, 0)
#else
#define MULTIPLY(operation) (void)a, (void)b, (void)sums
#endif
#ifdef __gfx90a__
#define MULTIPLY_NEWER(operation) MULTIPLY(operation)
#else
#define MULTIPLY_NEWER(operation) (void)a, (void)b, (void)sums
#endif

/// An operation: a tile has kSide rows and columns and a depth of kInner; a lane has kHeld elements of A and of B, as
/// `Factor` holds them.
template <typename E, typename S, typename F, int kTileSide, int kTileInner, int kElements>
struct Tile {
  using Element = E;
  using Sum = S;
  using Factor = F;
  static constexpr int kSide = kTileSide, kInner = kTileInner, kHeld = kElements, kSums = kTileSide * kTileSide / 64;
  using Sums = Lanes<Sum, kSums>;
};
struct Single32 : Tile<float, float, float, 32, 2, 1> {
  static constexpr const char* kName = "f32 32x32x2";
  __device__ static void multiply(Factor a, Factor b, Sums& sums) { MULTIPLY(f32_32x32x2f32); }
};
struct Single16 : Tile<float, float, float, 16, 4, 1> {
  static constexpr const char* kName = "f32 16x16x4";
  __device__ static void multiply(Factor a, Factor b, Sums& sums) { MULTIPLY(f32_16x16x4f32); }
};
struct Half32 : Tile<_Float16, float, Lanes<_Float16, 4>, 32, 8, 4> {
  static constexpr const char* kName = "f16 32x32x8";
  __device__ static void multiply(Factor a, Factor b, Sums& sums) { MULTIPLY(f32_32x32x8f16); }
};
struct Half16 : Tile<_Float16, float, Lanes<_Float16, 4>, 16, 16, 4> {
  static constexpr const char* kName = "f16 16x16x16";
  __device__ static void multiply(Factor a, Factor b, Sums& sums) { MULTIPLY(f32_16x16x16f16); }
};
struct Brain32 : Tile<Brain, float, Lanes<short, 2>, 32, 4, 2> {
  static constexpr const char* kName = "bf16 32x32x4";
  __device__ static void multiply(Factor a, Factor b, Sums& sums) { MULTIPLY(f32_32x32x4bf16); }
};
struct Byte16 : Tile<signed char, int, int, 16, 16, 4> {
  static constexpr const char* kName = "i8 16x16x16";
  __device__ static void multiply(Factor a, Factor b, Sums& sums) { MULTIPLY(i32_16x16x16i8); }
};
struct NewBrain16 : Tile<Brain, float, Lanes<short, 4>, 16, 16, 4> {
  static constexpr const char* kName = "bf16_1k 16x16x16";
  __device__ static void multiply(Factor a, Factor b, Sums& sums) { MULTIPLY_NEWER(f32_16x16x16bf16_1k); }
};
struct Double16 : Tile<double, double, double, 16, 4, 1> {
  static constexpr const char* kName = "f64 16x16x4";
  __device__ static void multiply(Factor a, Factor b, Sums& sums) { MULTIPLY_NEWER(f64_16x16x4f64); }
};

/// The row within a tile of one of a lane's sums; its column is the lane's.
template <typename Kind>
__device__ int row_of(int sum, int lane) {
  if (sizeof(typename Kind::Sum) == 8) return 4 * sum + lane / 16;
  constexpr int kGroups = 64 / Kind::kSide;
  return 4 * kGroups * (sum / 4) + 4 * (lane / Kind::kSide) + sum % 4;
}

/// c = a b + c, all row by row, of `inner` columns of a.
template <typename Kind>
__global__ void product(const typename Kind::Element* a, const typename Kind::Element* b, typename Kind::Sum* c,
                        int inner) {
  const int lane = static_cast<int>(threadIdx.x), columns = static_cast<int>(gridDim.x) * Kind::kSide;
  const int row = static_cast<int>(blockIdx.y) * Kind::kSide, column = static_cast<int>(blockIdx.x) * Kind::kSide;
  const int own = lane % Kind::kSide, depth = lane / Kind::kSide * Kind::kHeld;
  const auto place = [&](int sum) { return (row + row_of<Kind>(sum, lane)) * columns + column + own; };
  typename Kind::Sums sums;
  for (int sum = 0; sum < Kind::kSums; ++sum) sums[sum] = c[place(sum)];
  for (int first = depth; first < inner; first += Kind::kInner) {
    union {
      typename Kind::Factor factor;
      typename Kind::Element elements[Kind::kHeld];
    } of_a, of_b;
    for (int k = 0; k < Kind::kHeld; ++k) {
      of_a.elements[k] = a[(row + own) * inner + first + k];
      of_b.elements[k] = b[(first + k) * columns + column + own];
    }
    Kind::multiply(of_a.factor, of_b.factor, sums);
  }
  for (int sum = 0; sum < Kind::kSums; ++sum) c[place(sum)] = sums[sum];
}

constexpr int kRows = 64, kColumns = 32, kDepth = 48;

/// Whole numbers, as elements too. They stay where they are for all steps: graphs copy from there.
template <typename Element>
struct Numbers {
  explicit Numbers(int count) : whole(static_cast<std::size_t>(count)), elements(whole.size()) {}
  std::size_t bytes() const { return elements.size() * sizeof(Element); }
  void make(program::Random& random) {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      whole[i] = static_cast<int>(random.next() % 11) - 5;
      elements[i] = static_cast<Element>(whole[i]);
    }
  }
  std::vector<int> whole;
  std::vector<Element> elements;
};

/// One product twice over: c = a b + (a b + c).
template <typename Kind>
class Products {
 public:
  explicit Products(hipStream_t stream) : stream_(stream) {}

  /// Returns how many of the sums are wrong.
  int step(int number) {
    program::Random random(static_cast<std::uint64_t>(number));
    a_.make(random);
    b_.make(random);
    c_.make(random);
    const std::vector<int> expected = of_host();
    captured();
    int wrong = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) wrong += c_.elements[i] != static_cast<Sum>(expected[i]) ? 1 : 0;
    std::printf("%s step %d: %d wrong, checksum %016" PRIx64 "\n", Kind::kName, number, wrong,
                program::checksum(c_.elements));
    return wrong;
  }

 private:
  using Element = typename Kind::Element;
  using Sum = typename Kind::Sum;

  void captured() {
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    auto* const a = program::allocate<Element>(a_.elements.size());
    auto* const b = program::allocate<Element>(b_.elements.size());
    auto* const c = program::allocate<Sum>(c_.elements.size());
    CHECK(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
    CHECK(hipMemcpyAsync(a, a_.elements.data(), a_.bytes(), hipMemcpyHostToDevice, stream_));
    CHECK(hipMemcpyAsync(b, b_.elements.data(), b_.bytes(), hipMemcpyHostToDevice, stream_));
    CHECK(hipMemcpyAsync(c, c_.elements.data(), c_.bytes(), hipMemcpyHostToDevice, stream_));
    const dim3 grid(kColumns / Kind::kSide, kRows / Kind::kSide);
    for (int time = 0; time < 2; ++time) product<Kind><<<grid, 64, 0, stream_>>>(a, b, c, kDepth);
    CHECK(hipGetLastError());
    CHECK(hipMemcpyAsync(c_.elements.data(), c, c_.bytes(), hipMemcpyDeviceToHost, stream_));
    CHECK(hipStreamEndCapture(stream_, &graph));
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    CHECK(hipGraphLaunch(exec, stream_));
    CHECK(hipStreamSynchronize(stream_));
    CHECK(hipGraphExecDestroy(exec));
    CHECK(hipGraphDestroy(graph));
    for (void* memory : {static_cast<void*>(a), static_cast<void*>(b), static_cast<void*>(c)}) CHECK(hipFree(memory));
  }

  std::vector<int> of_host() const {
    std::vector<int> sums = c_.whole;
    for (int row = 0; row < kRows; ++row)
      for (int column = 0; column < kColumns; ++column)
        for (int k = 0; k < kDepth; ++k)
          sums[static_cast<std::size_t>(row * kColumns + column)] +=
              2 * a_.whole[static_cast<std::size_t>(row * kDepth + k)] *
              b_.whole[static_cast<std::size_t>(k * kColumns + column)];
    return sums;
  }

  hipStream_t stream_;
  Numbers<Element> a_{kRows * kDepth}, b_{kDepth * kColumns};
  Numbers<Sum> c_{kRows * kColumns};
};

/// Steps of each of these operations in turn. Returns how many sums were wrong.
template <typename... Kinds>
int steps(int count, hipStream_t stream) {
  std::tuple<Products<Kinds>...> all{Products<Kinds>(stream)...};
  int wrong = 0;
  for (int step = 0; step < count; ++step) std::apply([&](auto&... one) { ((wrong += one.step(step)), ...); }, all);
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  // --newer 1: operations too that gfx90a has and gfx908 has not.
  const program::Options options(argc, argv, {{"steps", "5"}, {"newer", "0"}});
  const int count = options.number("steps");
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreate(&stream));
  int wrong = steps<Single32, Single16, Half32, Half16, Brain32, Byte16>(count, stream);
  if (options.number("newer") != 0) wrong += steps<NewBrain16, Double16>(count, stream);
  CHECK(hipStreamDestroy(stream));
  return wrong == 0 ? 0 : 1;
}
