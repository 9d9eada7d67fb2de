// registrations.h: keeps what compiled programs have registered until somebody looks at it.
//
// Registration hooks run in constructors, under the loader's lock and before anything is set up. So they only append to
// a lock-free list; without memory the stub stays unknown.
// Threads: any; drain() one at a time. Never destroyed.
#pragma once

#include <atomic>
#include <cstdint>

#include "shim/base/function_ref.h"

namespace graphpool {

/// A fat binary or a host stub as it was registered.
struct Registration {
  Registration* next;
  void** handle;
  const void* image;  ///< of a fat binary, or its wrapper if it cannot be read; null: this is a stub
  const void* stub;
  bool readable;  ///< `image` is the binary, and not its wrapper

  /// The kernel of a stub, as the code object names it: the text follows the structure.
  const char* name() const noexcept { return reinterpret_cast<const char*>(this + 1); }
};

class Registrations {
 public:
  constexpr Registrations() = default;

  /// `wrapper`: {u32 "HIPF", u32 version, binary, unused}. In another kind of wrapper the binary is not looked for:
  /// only the runtime can read its kernels.
  void add_fat_binary(void** handle, const void* wrapper) noexcept;
  /// Copies the name.
  void add_stub(void** handle, const void* stub, const char* device_name) noexcept;

  /// Whether there is a registration that drain() has not handed over yet, or is handing over now.
  bool waiting() const noexcept { return newest_.load(std::memory_order_acquire) != nullptr; }
  /// Hands all over to `enter`, oldest first. `enter` may throw std::bad_alloc: then that registration is forgotten.
  void drain(FunctionRef<void(const Registration& registration)> enter) noexcept;

 private:
  void push(Registration* registration) noexcept;

  std::atomic<Registration*> newest_{nullptr};
};

}  // namespace graphpool
