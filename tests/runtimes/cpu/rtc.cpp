// rtc.cpp: what common/rtc.cpp needs of this runtime.
#include "api.h"
#include "rtc_compile.h"

namespace hipfront {

CompileResult compile_program(const CompileRequest& request) { return cpuhip::compile(request); }

RtcCall::RtcCall(const char* name) {
  auto* call = new cpuhip::Call(name);
  frame_ = call;
  refused_ = call->injected() != hipSuccess;
}
RtcCall::~RtcCall() { delete static_cast<cpuhip::Call*>(frame_); }

bool one_rtc_call_at_a_time() {
  constexpr int kSerialSince = 60000000;
  return cpuhip::config().version >= kSerialSince;
}

}  // namespace hipfront
