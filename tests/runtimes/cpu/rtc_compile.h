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

#include "common/rtc.h"

namespace cpuhip {

using hipfront::CompileRequest;
using hipfront::CompileResult;

/// Never throws; what fails is said in the log.
CompileResult compile(const CompileRequest& request);

}  // namespace cpuhip
