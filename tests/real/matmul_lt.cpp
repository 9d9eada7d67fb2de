// matmul_lt.cpp: hipBLASLt: products of matrices in single and half precision, bfloat16 and 8-bit whole numbers, of all
// transpositions and several sizes, with and without a bias and a relu; eager, then captured anew in each step, with
// other matrices. Each asks the library for algorithms first, in the capture too, and takes its first; with
// --algorithms N so many of those that it offers, one after the other.
#include <hipblaslt/hipblaslt.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "matrices.h"

namespace {

using namespace matrices;

void check_lt(hipblasStatus_t status, const char* call) {
  if (status == HIPBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s: status %d\n", call, static_cast<int>(status));
  std::exit(1);
}
#define CHECK_LT(call) check_lt((call), #call)

/// Types by HIP's numbers of them, which Debian 12's headers do not have yet.
constexpr auto kTypeInt8 = std::bit_cast<hipDataType>(3), kTypeInt32 = std::bit_cast<hipDataType>(10),
               kTypeBfloat = std::bit_cast<hipDataType>(14);

constexpr std::size_t kWorkspaceBytes = 4 << 20;
constexpr std::size_t kOffered = 64;  ///< as many algorithms are asked for where more than one is taken

/// What hipBLASLt calls the types of a product: of its matrices, its result, its sums and its scales.
template <typename Element>
struct Types;
template <>
struct Types<float> {
  using Result = float;
  using Scale = float;
  static constexpr hipDataType kElement = HIP_R_32F, kResult = HIP_R_32F, kScale = HIP_R_32F;
  static constexpr hipblasComputeType_t kSums = HIPBLAS_COMPUTE_32F;
};
template <>
struct Types<Half> : Types<float> {
  using Result = Half;
  static constexpr hipDataType kElement = HIP_R_16F, kResult = HIP_R_16F;
};
template <>
struct Types<Bfloat> : Types<float> {
  using Result = Bfloat;
  static constexpr hipDataType kElement = kTypeBfloat, kResult = kTypeBfloat;
};
template <>
struct Types<std::int8_t> {
  using Result = std::int32_t;
  using Scale = std::int32_t;
  static constexpr hipDataType kElement = kTypeInt8, kResult = kTypeInt32, kScale = kTypeInt32;
  static constexpr hipblasComputeType_t kSums = HIPBLAS_COMPUTE_32I;
};

struct Epilogue {
  const char* name;
  hipblasLtEpilogue_t what;
  bool bias, relu;
};
constexpr Epilogue kEpilogues[] = {{"", HIPBLASLT_EPILOGUE_DEFAULT, false, false},
                                   {" + bias", HIPBLASLT_EPILOGUE_BIAS, true, false},
                                   {", relu", HIPBLASLT_EPILOGUE_RELU, false, true},
                                   {" + bias, relu", HIPBLASLT_EPILOGUE_RELU_BIAS, true, true}};

class Layout {
 public:
  Layout(hipDataType type, int rows, int columns) {
    CHECK_LT(hipblasLtMatrixLayoutCreate(&layout_, type, static_cast<std::uint64_t>(rows),
                                         static_cast<std::uint64_t>(columns), rows));
  }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  ~Layout() { CHECK_LT(hipblasLtMatrixLayoutDestroy(layout_)); }
  hipblasLtMatrixLayout_t get() const { return layout_; }

 private:
  hipblasLtMatrixLayout_t layout_ = nullptr;
};

class Lt {
 public:
  explicit Lt(int algorithms) : algorithms_(algorithms), workspace_(program::allocate<char>(kWorkspaceBytes)) {
    CHECK_LT(hipblasLtCreate(&handle_));
    CHECK_LT(hipblasLtMatmulPreferenceCreate(&preference_));
    CHECK_LT(hipblasLtMatmulPreferenceSetAttribute(preference_, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                   &kWorkspaceBytes, sizeof kWorkspaceBytes));
  }
  Lt(const Lt&) = delete;
  Lt& operator=(const Lt&) = delete;
  ~Lt() {
    CHECK_LT(hipblasLtMatmulPreferenceDestroy(preference_));
    CHECK_LT(hipblasLtDestroy(handle_));
    CHECK(hipFree(workspace_));
  }

  /// The epilogues take turns, so that each form gets each of them. The library has no bias for whole numbers.
  template <typename Element>
  void products(int step, bool captured) {
    std::size_t turn = 0;
    for (const Sizes& size : kSizes) {
      for (const bool a_transposed : {false, true}) {
        for (const bool b_transposed : {false, true}) {
          const std::size_t epilogue = std::is_integral_v<Element> ? turn % 2 * 2 : turn % std::size(kEpilogues);
          for (int algorithm = 0; algorithm < algorithms_; ++algorithm)
            one_product<Element>(step, captured, size, a_transposed, b_transposed, kEpilogues[epilogue], algorithm);
          ++turn;
        }
      }
      ++turn;
    }
  }

  /// Each step's matrices live until the next one has ended, so that the next ones lie elsewhere.
  void end_step() { before_ = std::exchange(made_, {}); }

  bool right() const { return works_.right(); }

 private:
  template <typename Element>
  const Matrix<Element>& made(int rows, int columns, bool transposed, program::Random& random) {
    auto matrix = std::make_shared<const Matrix<Element>>(rows, columns, transposed, random);
    made_.push_back(matrix);
    return *matrix;
  }

  template <typename Element>
  void one_product(int step, bool captured, const Sizes& size, bool a_transposed, bool b_transposed,
                   const Epilogue& epilogue, int algorithm) {
    using Result = typename Types<Element>::Result;
    program::Random random(static_cast<std::uint64_t>(step));
    const auto& a = made<Element>(size.rows, size.inner, a_transposed, random);
    const auto& b = made<Element>(size.inner, size.columns, b_transposed, random);
    const auto& c = made<Result>(size.rows, size.columns, false, random);
    const auto& d = made<Result>(size.rows, size.columns, false, random);
    const auto& bias = made<Result>(size.rows, 1, false, random);
    works_.run(captured, [&] { call(size, a, a_transposed, b, b_transposed, c, epilogue, bias, d, algorithm); });
    std::vector<int> expected = host_product(a, a_transposed, b, b_transposed, size, 2, c);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (epilogue.bias) expected[i] += bias.numbers[i % bias.numbers.size()];
      if (epilogue.relu) expected[i] = std::max(expected[i], 0);
    }
    char name[80];
    std::snprintf(name, sizeof name, "%s %dx%dx%d %s%s%s, algorithm %d", kName<Element>, size.rows, size.columns,
                  size.inner, a_transposed ? "T" : "N", b_transposed ? "T" : "N", epilogue.name, algorithm);
    works_.compare(name, step, captured, expected, program::download(d.device, expected.size()));
  }

  /// d = 2 a b + c, and the epilogue.
  template <typename Element, typename Result>
  void call(const Sizes& size, const Matrix<Element>& a, bool a_transposed, const Matrix<Element>& b, bool b_transposed,
            const Matrix<Result>& c, const Epilogue& epilogue, const Matrix<Result>& bias, const Matrix<Result>& d,
            int algorithm) {
    using T = Types<Element>;
    const Layout a_layout(T::kElement, a.rows, a_transposed ? size.rows : size.inner);
    const Layout b_layout(T::kElement, b.rows, b_transposed ? size.inner : size.columns);
    const Layout result(T::kResult, size.rows, size.columns);
    hipblasLtMatmulDesc_t product = nullptr;
    CHECK_LT(hipblasLtMatmulDescCreate(&product, T::kSums, T::kScale));
    const auto set = [&](hipblasLtMatmulDescAttributes_t name, const auto& value) {
      CHECK_LT(hipblasLtMatmulDescSetAttribute(product, name, &value, sizeof value));
    };
    set(HIPBLASLT_MATMUL_DESC_TRANSA, a_transposed ? HIPBLAS_OP_T : HIPBLAS_OP_N);
    set(HIPBLASLT_MATMUL_DESC_TRANSB, b_transposed ? HIPBLAS_OP_T : HIPBLAS_OP_N);
    set(HIPBLASLT_MATMUL_DESC_EPILOGUE, epilogue.what);
    if (epilogue.bias) {
      set(HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, T::kResult);
      set(HIPBLASLT_MATMUL_DESC_BIAS_POINTER, bias.device);
    }
    std::vector<hipblasLtMatmulHeuristicResult_t> offered(algorithms_ == 1 ? 1 : kOffered);
    int found = 0;
    CHECK_LT(hipblasLtMatmulAlgoGetHeuristic(handle_, product, a_layout.get(), b_layout.get(), result.get(),
                                             result.get(), preference_, static_cast<int>(offered.size()),
                                             offered.data(), &found));
    if (found == 0) check_lt(HIPBLAS_STATUS_NOT_SUPPORTED, "hipblasLtMatmulAlgoGetHeuristic");
    const auto& chosen = offered[static_cast<std::size_t>(algorithm * found / algorithms_)];
    const typename T::Scale one = 1, two = 2;
    CHECK_LT(hipblasLtMatmul(handle_, product, &two, a.device, a_layout.get(), b.device, b_layout.get(), &one, c.device,
                             result.get(), d.device, result.get(), &chosen.algo, workspace_, kWorkspaceBytes,
                             works_.stream()));
    CHECK_LT(hipblasLtMatmulDescDestroy(product));
  }

  const int algorithms_;
  Works works_;
  char* workspace_;
  hipblasLtHandle_t handle_ = nullptr;
  hipblasLtMatmulPreference_t preference_ = nullptr;
  std::vector<std::shared_ptr<const void>> made_, before_;
};

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const program::Options options(argc, argv, {{"steps", "3"}, {"algorithms", "1"}});
  Lt lt(options.number("algorithms"));
  for (int step = 0; step <= options.number("steps"); ++step) {
    const bool captured = step > 0;
    lt.products<float>(step, captured);
    lt.products<Half>(step, captured);
    lt.products<Bfloat>(step, captured);
    lt.products<std::int8_t>(step, captured);
    lt.end_step();
  }
  return lt.right() ? 0 : 1;
}
