// make_real.h: makes a shell a real capture. The runtime captures it already, so what was withheld is issued into it,
// each operation behind the nodes that it depends on. Then every stream's last nodes are what they would have been.
//
// Where an operation cannot be issued any more the capture is lost, and ends as invalidated.
#pragma once

#include <cstddef>

#include "shim/capture/session.h"

namespace graphpool {

/// Pre-condition: the capture is a shell. The reason, a literal, goes to the report. `own`: the program's operation
/// that the recording does not have; null: it was no operation.
void make_real(CaptureSession& session, const char* reason, const Signature* own = nullptr) REQUIRES(session.lock);
/// Does this at an operation that differs, whose payload begins at `offset` in the binding. The operation is not
/// issued, and its payload stays in the binding.
void make_real_before(CaptureSession& session, std::size_t offset, const char* reason, const Signature& own)
    REQUIRES(session.lock);

}  // namespace graphpool
