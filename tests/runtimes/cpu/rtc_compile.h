// rtc_compile.h: HIP C++ kernels -> an x86-64 shared object with AMD's metadata note. Used by hiprtc and by the offline
// compiler cpuhip-cc.
//
// Steps: preprocess, find the kernels (rtc_scan.h), compile behind the prelude, read the layouts the compiler computed,
// link with the notes (rtc_metadata.h). Results are kept on disk under a hash of all that decides them and appear there
// by rename, so any number of processes may share the directory.
//
// Environment: CPUHIP_COMPILER  the compiler driver (default: c++, else g++, of PATH)
//              CPUHIP_CACHE     the directory (default: cpuhip-<user id> below $TMPDIR or /tmp)
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace cpuhip {

struct CompileRequest {
  std::string name;    ///< of the program, for messages
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  ///< name as included, text
  /// -D, -U, -I, -include, -std= and -O reach the compiler; all others decide nothing here and are accepted.
  std::vector<std::string> options;
  std::vector<std::string> expressions;  ///< name expressions: template instances, variables
};

struct CompileResult {
  bool ok = false;
  std::string log;                   ///< what the compiler said
  std::vector<std::byte> object;
  std::vector<std::string> lowered;  ///< of the request's expressions
};

/// Never throws; what fails is said in the log.
CompileResult compile(const CompileRequest& request);

}  // namespace cpuhip
