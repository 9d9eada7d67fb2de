#include "shim/execs/variant.h"

#include <algorithm>

#include "shim/execs/recording.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"
#include "shim/memory/freed_memory.h"
#include "shim/recording/operation_functions.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

Variant::~Variant() {
  const LastErrorScope last_error;
  if (exec != nullptr) static_cast<void>(stream_work().destroy_exec(exec, device));
  if (graph != nullptr) static_cast<void>(next().hipGraphDestroy(no_longer_private(graph)));
}

bool outlived_memory(const Operation& operation, std::uint64_t freed_before) noexcept {
  return may_hold_memory(operation.signature.kind) && freed_before != memory_freed();
}

bool outlived_memory(const Recording& recording, std::uint64_t freed_before) noexcept {
  return freed_before != memory_freed() &&
         std::any_of(recording.operations.begin(), recording.operations.end(),
                     [&](const Operation& operation) { return outlived_memory(operation, freed_before); });
}

}  // namespace graphpool
