// operation.h: one piece of device work. The same value is executed by a stream's worker, kept in a graph node and
// replayed by a graph launch, so eager and captured work cannot differ.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

namespace cpuhip {

class Device;
struct Kernel;  // kernel.h

/// A kernel launch. `args` is the explicit part of the kernel argument segment, laid out as the metadata says.
struct KernelWork {
  void* handle = nullptr;  ///< what the program named: a host stub or a hipFunction_t
  std::shared_ptr<const Kernel> kernel;
  dim3 grid, block;
  unsigned shared_bytes = 0;
  std::vector<std::byte> args;
  bool packed = false;  ///< the arguments came as one buffer (`extra`)
};

/// A copy of a box of bytes; a plain copy is a box of one row.
/// To and from symbols: `dst` or `src` is the resolved address, `symbol` and `offset` are as the program said.
struct CopyWork {
  enum class Form { OneD, ToSymbol, FromSymbol, ThreeD, Peer };
  Form form = Form::OneD;
  void* dst = nullptr;
  const void* src = nullptr;
  hipMemcpyKind kind = hipMemcpyDefault;
  std::size_t width = 0, height = 1, depth = 1;  ///< bytes, rows, slices
  std::size_t dst_pitch = 0, dst_slice = 0;      ///< bytes from row to row, rows from slice to slice
  std::size_t src_pitch = 0, src_slice = 0;
  const void* symbol = nullptr;  ///< ToSymbol, FromSymbol: the symbol as the program named it
  std::size_t offset = 0;
};

/// A fill; `width` counts elements.
struct FillWork {
  void* dst = nullptr;
  unsigned value = 0;
  unsigned element_size = 1;
  std::size_t width = 0, height = 1, pitch = 0;  ///< elements, rows, bytes from row to row
  std::size_t depth = 1, slice = 0;              ///< slices, rows from slice to slice
};

struct HostWork {
  hipHostFn_t fn = nullptr;
  void* user = nullptr;
};

/// hipStreamWriteValue and hipStreamWaitValue.
struct WriteValueWork {
  void* address = nullptr;
  std::uint64_t value = 0;
  unsigned bytes = 8;
};
struct WaitValueWork {
  void* address = nullptr;
  std::uint64_t value = 0, mask = ~std::uint64_t{0};
  unsigned flags = 0, bytes = 8;
};

using Operation = std::variant<KernelWork, CopyWork, FillWork, HostWork, WriteValueWork, WaitValueWork>;

/// What HIP checks when the call is made (null pointers, kinds, ranges inside the allocations, launch limits).
hipError_t validate(const Operation& operation, Device& device);

/// Performs the work on behalf of `device`, on the calling thread. Every operand is checked against what the device may
/// access first; a violation is hipErrorIllegalAddress and the caller makes it the device's sticky error.
hipError_t execute(const Operation& operation, Device& device);

}  // namespace cpuhip
