// rtc.h: hiprtc's functions (rtc.cpp) over what each runtime provides: a compiler, and the frame of a call.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hipfront {

struct CompileRequest {
  std::string name;  ///< of the program, for messages
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  ///< name as included, text
  /// -D, -U, -I, -include, -std= and -O reach the compiler; all others decide nothing here and are accepted.
  std::vector<std::string> options;
  std::vector<std::string> expressions;  ///< name expressions: template instances, variables
};

struct CompileResult {
  bool ok = false;
  std::string log;  ///< what the compiler said
  std::vector<std::byte> object;
  std::vector<std::string> lowered;  ///< of the request's expressions
};

/// The runtime's compiler. Never throws; what fails is said in the log.
CompileResult compile_program(const CompileRequest& request);

/// What a runtime does around each of its calls; made and destroyed by the thread that calls.
class RtcCall {
 public:
  explicit RtcCall(const char* name);
  ~RtcCall();
  RtcCall(const RtcCall&) = delete;
  RtcCall& operator=(const RtcCall&) = delete;

  /// The call is to fail (a test asked for it).
  bool refused() const { return refused_; }

 private:
  [[maybe_unused]] void* frame_ = nullptr;
  bool refused_ = false;
};

/// HIP 6 lets one hiprtc call of a process run at a time; HIP 5 compiles different programs in parallel.
bool one_rtc_call_at_a_time();

}  // namespace hipfront
