// stream_tail.h: asks the runtime what the next operation of a capturing stream depends on, and sets it.
//
// Threads: any that can name the stream. Errors: the result says that a call failed. None reach the program; for
// runtime_tail() and replace_tail() the caller sees to that.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <vector>

namespace graphpool {

/// The nodes that the next operation of a stream depends on (probe capture_names_its_last_node). Valid until the stream
/// is given something.
struct StreamTail {
  bool known = false;  ///< false: the stream does not capture, or the runtime does not say
  const hipGraphNode_t* nodes = nullptr;
  std::size_t count = 0;

  const hipGraphNode_t* begin() const noexcept { return nodes; }
  const hipGraphNode_t* end() const noexcept { return nodes + count; }
};
/// Asks the runtime. What the call leaves in the last error is the caller's to restore.
StreamTail runtime_tail(hipStream_t stream) noexcept;

/// Copies the tail's nodes. Returns false where the runtime does not tell them.
bool copy_tail(hipStream_t stream, std::vector<hipGraphNode_t>* nodes);
/// Returns the one node of the tail. Returns null where it has none or several, or the runtime does not tell.
hipGraphNode_t last_node(hipStream_t stream) noexcept;
/// Lets the stream come behind these nodes and no others. The caller restores the last error.
bool replace_tail(hipStream_t stream, const std::vector<hipGraphNode_t>& nodes) noexcept;
/// Lets the stream come behind these nodes, too.
bool extend_tail(hipStream_t stream, const std::vector<hipGraphNode_t>& nodes);

/// Makes a call of the library's own, and once more where it returned false: a single failure must not count.
template <typename Call>
bool tried_twice(Call&& call) {
  return call() || call();
}

}  // namespace graphpool
