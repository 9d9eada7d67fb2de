// gemm.cpp: rocBLAS: products of matrices in single, double and half precision, of all transpositions and several
// sizes, a product of a matrix and a vector, a sum; eager, then captured anew in each step, with other matrices.
//
// The numbers are small whole ones, so that every result is exact; it is compared with the host's and its checksum
// printed.
#include <rocblas/rocblas.h>

#include <type_traits>

#include "../programs/program.h"

namespace {

void check_blas(rocblas_status status, const char* call) {
  if (status == rocblas_status_success) return;
  std::fprintf(stderr, "%s: %s\n", call, rocblas_status_to_string(status));
  std::exit(1);
}
#define CHECK_BLAS(call) check_blas((call), #call)

struct Sizes {
  int rows, columns, inner;
};
constexpr Sizes kSizes[] = {{32, 32, 32}, {64, 48, 16}, {65, 33, 17}, {128, 128, 64}, {1, 64, 64}};
constexpr rocblas_operation kForms[] = {rocblas_operation_none, rocblas_operation_transpose};

/// Half precision, as its bits: whole numbers up to 2048 are exact.
struct Half {
  std::uint16_t bits;
};
Half half_of(int whole) {
  if (whole == 0) return {0};
  const unsigned size = static_cast<unsigned>(whole < 0 ? -whole : whole);
  unsigned exponent = 0;
  while (size >> (exponent + 1) != 0) ++exponent;
  const unsigned fraction = (size << (10 - exponent)) & 0x3ff;
  return {static_cast<std::uint16_t>((whole < 0 ? 0x8000u : 0u) | (exponent + 15) << 10 | fraction)};
}
int whole_of(Half half) {
  if ((half.bits & 0x7fff) == 0) return 0;
  const int exponent = (half.bits >> 10 & 31) - 15;
  const int size = (0x400 | (half.bits & 0x3ff)) >> (10 - exponent);
  return (half.bits & 0x8000) != 0 ? -size : size;
}

template <typename Element>
Element element_of(int whole) {
  if constexpr (std::is_same_v<Element, Half>) {
    return half_of(whole);
  } else {
    return static_cast<Element>(whole);
  }
}
template <typename Element>
int whole_of(Element element) {
  return static_cast<int>(element);
}

template <typename Element>
constexpr const char* kName = "single";
template <>
constexpr const char* kName<double> = "double";
template <>
constexpr const char* kName<Half> = "half";

rocblas_status product(rocblas_handle handle, rocblas_operation a_form, rocblas_operation b_form, const Sizes& size,
                       const float* a, int a_rows, const float* b, int b_rows, float* c) {
  const float one = 1, two = 2;
  return rocblas_sgemm(handle, a_form, b_form, size.rows, size.columns, size.inner, &two, a, a_rows, b, b_rows, &one, c,
                       size.rows);
}
rocblas_status product(rocblas_handle handle, rocblas_operation a_form, rocblas_operation b_form, const Sizes& size,
                       const double* a, int a_rows, const double* b, int b_rows, double* c) {
  const double one = 1, two = 2;
  return rocblas_dgemm(handle, a_form, b_form, size.rows, size.columns, size.inner, &two, a, a_rows, b, b_rows, &one, c,
                       size.rows);
}
/// Summed in single precision, as programs that learn or infer ask for it.
rocblas_status product(rocblas_handle handle, rocblas_operation a_form, rocblas_operation b_form, const Sizes& size,
                       const Half* a, int a_rows, const Half* b, int b_rows, Half* c) {
  const float one = 1, two = 2;
  constexpr auto kHalf = rocblas_datatype_f16_r;
  return rocblas_gemm_ex(handle, a_form, b_form, size.rows, size.columns, size.inner, &two, a, kHalf, a_rows, b, kHalf,
                         b_rows, &one, c, kHalf, size.rows, c, kHalf, size.rows, rocblas_datatype_f32_r,
                         rocblas_gemm_algo_standard, 0, 0);
}

template <typename Element>
struct Matrix {
  int rows;
  std::vector<int> numbers;
  Element* device;

  Matrix(int of_rows, int columns, program::Random& random)
      : rows(of_rows),
        numbers(static_cast<std::size_t>(of_rows * columns)),
        device(program::allocate<Element>(numbers.size())) {
    for (int& each : numbers) each = static_cast<int>(random.next() % 7) - 3;
    upload();
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() { CHECK(hipFree(device)); }

  void upload() {
    std::vector<Element> elements(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) elements[i] = element_of<Element>(numbers[i]);
    CHECK(hipMemcpy(device, elements.data(), elements.size() * sizeof(Element), hipMemcpyHostToDevice));
  }
  /// Column by column; transposed: of the matrix that this one is the transposed of.
  int at(int row, int column, rocblas_operation form) const {
    if (form == rocblas_operation_transpose) std::swap(row, column);
    return numbers[static_cast<std::size_t>(column * rows + row)];
  }
};

class Blas {
 public:
  Blas() {
    CHECK(hipStreamCreate(&stream_));
    CHECK_BLAS(rocblas_create_handle(&handle_));
    CHECK_BLAS(rocblas_set_stream(handle_, stream_));
  }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  ~Blas() {
    CHECK_BLAS(rocblas_destroy_handle(handle_));
    CHECK(hipStreamDestroy(stream_));
  }

  template <typename Element>
  void products(int step, bool captured) {
    for (const Sizes& size : kSizes)
      for (const rocblas_operation a_form : kForms)
        for (const rocblas_operation b_form : kForms) one_product<Element>(step, captured, size, a_form, b_form);
  }

  /// y = A x + y, then y = y + 3 x: two kernels of one graph.
  void vectors(int step, bool captured) {
    constexpr int kLength = 96;
    program::Random random(static_cast<std::uint64_t>(step));
    const Matrix<float> a(kLength, kLength, random), x(kLength, 1, random), y(kLength, 1, random);
    const float one = 1, three = 3;
    work(captured, [&] {
      CHECK_BLAS(rocblas_sgemv(handle_, rocblas_operation_none, kLength, kLength, &one, a.device, kLength, x.device, 1,
                               &one, y.device, 1));
      CHECK_BLAS(rocblas_saxpy(handle_, kLength, &three, x.device, 1, y.device, 1));
    });
    std::vector<int> expected(kLength);
    for (int row = 0; row < kLength; ++row) {
      int sum = y.numbers[static_cast<std::size_t>(row)] + 3 * x.numbers[static_cast<std::size_t>(row)];
      for (int k = 0; k < kLength; ++k)
        sum += a.at(row, k, rocblas_operation_none) * x.numbers[static_cast<std::size_t>(k)];
      expected[static_cast<std::size_t>(row)] = sum;
    }
    compare("vectors", step, captured, expected, program::download(y.device, kLength));
  }

  bool right() const { return wrong_ == 0; }

 private:
  template <typename Element>
  void one_product(int step, bool captured, const Sizes& size, rocblas_operation a_form, rocblas_operation b_form) {
    program::Random random(static_cast<std::uint64_t>(step));
    const auto matrix = [&](int rows, int columns, rocblas_operation form) {
      return form == rocblas_operation_none ? std::pair(rows, columns) : std::pair(columns, rows);
    };
    const auto [a_rows, a_columns] = matrix(size.rows, size.inner, a_form);
    const auto [b_rows, b_columns] = matrix(size.inner, size.columns, b_form);
    const Matrix<Element> a(a_rows, a_columns, random), b(b_rows, b_columns, random);
    const Matrix<Element> c(size.rows, size.columns, random);
    work(captured,
         [&] { CHECK_BLAS(product(handle_, a_form, b_form, size, a.device, a.rows, b.device, b.rows, c.device)); });
    std::vector<int> expected = c.numbers;
    for (int column = 0; column < size.columns; ++column) {
      for (int row = 0; row < size.rows; ++row) {
        int sum = 0;
        for (int k = 0; k < size.inner; ++k) sum += a.at(row, k, a_form) * b.at(k, column, b_form);
        expected[static_cast<std::size_t>(column * size.rows + row)] += 2 * sum;
      }
    }
    char name[64];
    std::snprintf(name, sizeof name, "%s %dx%dx%d %s%s", kName<Element>, size.rows, size.columns, size.inner,
                  a_form == rocblas_operation_none ? "N" : "T", b_form == rocblas_operation_none ? "N" : "T");
    compare(name, step, captured, expected, program::download(c.device, expected.size()));
  }

  template <typename Calls>
  void work(bool captured, const Calls& calls) {
    if (captured) {
      hipGraph_t graph = nullptr;
      hipGraphExec_t exec = nullptr;
      CHECK(hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal));
      calls();
      CHECK(hipStreamEndCapture(stream_, &graph));
      CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      CHECK(hipGraphLaunch(exec, stream_));
      CHECK(hipStreamSynchronize(stream_));
      CHECK(hipGraphExecDestroy(exec));
      CHECK(hipGraphDestroy(graph));
    } else {
      calls();
    }
    CHECK(hipStreamSynchronize(stream_));
  }

  template <typename Element>
  void compare(const char* name, int step, bool captured, const std::vector<int>& expected,
               const std::vector<Element>& found) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i) wrong += whole_of(found[i]) != expected[i];
    wrong_ += wrong;
    std::printf("%s, %s, step %d: %zu wrong, checksum %016" PRIx64 "\n", name, captured ? "graph" : "eager", step,
                wrong, program::checksum(found));
  }

  rocblas_handle handle_ = nullptr;
  hipStream_t stream_ = nullptr;
  std::size_t wrong_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const program::Options options(argc, argv, {{"steps", "3"}});
  Blas blas;
  for (int step = 0; step <= options.number("steps"); ++step) {
    const bool captured = step > 0;
    blas.products<float>(step, captured);
    blas.products<double>(step, captured);
    blas.products<Half>(step, captured);
    blas.vectors(step, captured);
  }
  return blas.right() ? 0 : 1;
}
