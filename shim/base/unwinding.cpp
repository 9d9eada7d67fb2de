// unwinding.cpp: exceptions and cancellation of the host pass through our frames, whose clean-up is run by the
// personality routine that is linked into this library. It hands registers to the host's unwinder by functions of the
// unwinder linked here, which abort until that one has been used once: then only does it know how large registers are.
#include <unwind.h>

namespace graphpool {
namespace {

__attribute__((constructor)) void use_unwinder_once() noexcept {
  _Unwind_Backtrace([](_Unwind_Context*, void*) { return _URC_END_OF_STACK; }, nullptr);
}

}  // namespace
}  // namespace graphpool
