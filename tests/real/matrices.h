// matrices.h: what gemm.cpp and matmul_lt.cpp share: elements of several types, matrices of small whole numbers in the
// device's memory, work that is done eagerly or in a capture, and how its results are compared with the host's.
//
// The numbers are so small that their sums are exact. A result that its type cannot hold is rounded to the nearest.
#pragma once

#include <bit>
#include <type_traits>

#include "../programs/program.h"

namespace matrices {

/// Half precision, as its bits: whole numbers up to 2048 are exact.
struct Half {
  std::uint16_t bits;
};
inline Half half_of(int whole) {
  if (whole == 0) return {0};
  const unsigned size = static_cast<unsigned>(whole < 0 ? -whole : whole);
  unsigned exponent = 0;
  while (size >> (exponent + 1) != 0) ++exponent;
  const unsigned fraction = (size << (10 - exponent)) & 0x3ff;
  return {static_cast<std::uint16_t>((whole < 0 ? 0x8000u : 0u) | (exponent + 15) << 10 | fraction)};
}
inline int whole_of(Half half) {
  if ((half.bits & 0x7fff) == 0) return 0;
  const int exponent = (half.bits >> 10 & 31) - 15;
  const int size = (0x400 | (half.bits & 0x3ff)) >> (10 - exponent);
  return (half.bits & 0x8000) != 0 ? -size : size;
}

/// bfloat16, as its bits: the upper half of a float's, rounded to the nearest, of two as near to the even.
struct Bfloat {
  std::uint16_t bits;
};
inline Bfloat bfloat_of(int whole) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(whole));
  return {static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
inline int whole_of(Bfloat bfloat) {
  return static_cast<int>(std::bit_cast<float>(static_cast<std::uint32_t>(bfloat.bits) << 16));
}

template <typename Element>
Element element_of(int whole) {
  if constexpr (std::is_same_v<Element, Half>) {
    return half_of(whole);
  } else if constexpr (std::is_same_v<Element, Bfloat>) {
    return bfloat_of(whole);
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
inline constexpr const char* kName<double> = "double";
template <>
inline constexpr const char* kName<Half> = "half";
template <>
inline constexpr const char* kName<Bfloat> = "bfloat16";
template <>
inline constexpr const char* kName<std::int8_t> = "int8";

struct Sizes {
  int rows, columns, inner;
};
constexpr Sizes kSizes[] = {{32, 32, 32}, {64, 48, 16}, {65, 33, 17}, {128, 128, 64}, {1, 64, 64}};

/// Stored column by column.
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
    std::vector<Element> elements(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) elements[i] = element_of<Element>(numbers[i]);
    CHECK(hipMemcpy(device, elements.data(), elements.size() * sizeof(Element), hipMemcpyHostToDevice));
  }
  /// `stored_transposed`: its rows are the columns of a matrix of this size.
  Matrix(int of_rows, int columns, bool stored_transposed, program::Random& random)
      : Matrix(stored_transposed ? columns : of_rows, stored_transposed ? of_rows : columns, random) {}
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() { CHECK(hipFree(device)); }

  /// `transposed`: of the matrix that this one is the transposed of.
  int at(int row, int column, bool transposed) const {
    if (transposed) std::swap(row, column);
    return numbers[static_cast<std::size_t>(column * rows + row)];
  }
};

/// The numbers of `added` and `scale` times the product of a and b.
template <typename Element, typename Result>
std::vector<int> host_product(const Matrix<Element>& a, bool a_transposed, const Matrix<Element>& b, bool b_transposed,
                              const Sizes& size, int scale, const Matrix<Result>& added) {
  std::vector<int> numbers = added.numbers;
  for (int column = 0; column < size.columns; ++column) {
    for (int row = 0; row < size.rows; ++row) {
      int sum = 0;
      for (int k = 0; k < size.inner; ++k) sum += a.at(row, k, a_transposed) * b.at(k, column, b_transposed);
      numbers[static_cast<std::size_t>(column * size.rows + row)] += scale * sum;
    }
  }
  return numbers;
}

/// A stream and what is done in it.
class Works {
 public:
  Works() { CHECK(hipStreamCreate(&stream_)); }
  Works(const Works&) = delete;
  Works& operator=(const Works&) = delete;
  ~Works() { CHECK(hipStreamDestroy(stream_)); }
  hipStream_t stream() const { return stream_; }
  bool right() const { return wrong_ == 0; }

  template <typename Calls>
  void run(bool captured, const Calls& calls) {
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
    for (std::size_t i = 0; i < found.size(); ++i)
      wrong += whole_of(found[i]) != whole_of(element_of<Element>(expected[i]));
    wrong_ += wrong;
    std::printf("%s, %s, step %d: %zu wrong, checksum %016" PRIx64 "\n", name, captured ? "graph" : "eager", step,
                wrong, program::checksum(found));
  }

 private:
  hipStream_t stream_ = nullptr;
  std::size_t wrong_ = 0;
};

}  // namespace matrices
