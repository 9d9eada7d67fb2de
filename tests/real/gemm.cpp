// gemm.cpp: rocBLAS: products of matrices in single, double and half precision, of all transpositions and several
// sizes, a product of a matrix and a vector, a sum; eager, then captured anew in each step, with other matrices.
//
// The numbers are small whole ones, so that every result is exact; it is compared with the host's and its checksum
// printed.
#include <rocblas/rocblas.h>

#include "matrices.h"

namespace {

using namespace matrices;

void check_blas(rocblas_status status, const char* call) {
  if (status == rocblas_status_success) return;
  std::fprintf(stderr, "%s: %s\n", call, rocblas_status_to_string(status));
  std::exit(1);
}
#define CHECK_BLAS(call) check_blas((call), #call)

constexpr rocblas_operation kForms[] = {rocblas_operation_none, rocblas_operation_transpose};

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

class Blas {
 public:
  Blas() {
    CHECK_BLAS(rocblas_create_handle(&handle_));
    CHECK_BLAS(rocblas_set_stream(handle_, works_.stream()));
  }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  ~Blas() { CHECK_BLAS(rocblas_destroy_handle(handle_)); }

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
    works_.run(captured, [&] {
      CHECK_BLAS(rocblas_sgemv(handle_, rocblas_operation_none, kLength, kLength, &one, a.device, kLength, x.device, 1,
                               &one, y.device, 1));
      CHECK_BLAS(rocblas_saxpy(handle_, kLength, &three, x.device, 1, y.device, 1));
    });
    std::vector<int> expected(kLength);
    for (int row = 0; row < kLength; ++row) {
      int sum = y.numbers[static_cast<std::size_t>(row)] + 3 * x.numbers[static_cast<std::size_t>(row)];
      for (int k = 0; k < kLength; ++k) sum += a.at(row, k, false) * x.numbers[static_cast<std::size_t>(k)];
      expected[static_cast<std::size_t>(row)] = sum;
    }
    works_.compare("vectors", step, captured, expected, program::download(y.device, kLength));
  }

  bool right() const { return works_.right(); }

 private:
  template <typename Element>
  void one_product(int step, bool captured, const Sizes& size, rocblas_operation a_form, rocblas_operation b_form) {
    program::Random random(static_cast<std::uint64_t>(step));
    const bool a_transposed = a_form == rocblas_operation_transpose,
               b_transposed = b_form == rocblas_operation_transpose;
    const Matrix<Element> a(size.rows, size.inner, a_transposed, random);
    const Matrix<Element> b(size.inner, size.columns, b_transposed, random);
    const Matrix<Element> c(size.rows, size.columns, random);
    works_.run(captured, [&] {
      CHECK_BLAS(product(handle_, a_form, b_form, size, a.device, a.rows, b.device, b.rows, c.device));
    });
    const std::vector<int> expected = host_product(a, a_transposed, b, b_transposed, size, 2, c);
    char name[64];
    std::snprintf(name, sizeof name, "%s %dx%dx%d %s%s", kName<Element>, size.rows, size.columns, size.inner,
                  a_transposed ? "T" : "N", b_transposed ? "T" : "N");
    works_.compare(name, step, captured, expected, program::download(c.device, expected.size()));
  }

  Works works_;
  rocblas_handle handle_ = nullptr;
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
