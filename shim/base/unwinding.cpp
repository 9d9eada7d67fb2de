// unwinding.cpp: uses the unwinder that is linked into this library once, at its load. Exceptions and cancellation of
// the host pass through our frames, whose clean-up the personality routine linked here runs. That routine hands
// registers to the host's unwinder by functions of the unwinder linked here. These abort until the linked unwinder has
// been used once: before that it does not know how large registers are.
#include <unwind.h>

namespace graphpool {
namespace {

__attribute__((constructor)) void use_unwinder_once() noexcept {
  _Unwind_Backtrace([](_Unwind_Context*, void*) { return _URC_END_OF_STACK; }, nullptr);
}

}  // namespace
}  // namespace graphpool
