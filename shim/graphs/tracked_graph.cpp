#include "shim/graphs/tracked_graph.h"

#include <algorithm>

#include "shim/memory/freed_memory.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/reason_counts.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {
namespace {

std::uint64_t next_id() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

TrackedGraph::TrackedGraph(GraphState state) noexcept
    : id(next_id()), memory_freed(graphpool::memory_freed()), state_(state) {}

/// Returns whether it was unmodified.
bool TrackedGraph::become_modified() noexcept {
  GraphState before = state_.load(std::memory_order_acquire), after = before;
  do {
    if (before > GraphState::kUnmodified) return false;
    after = before == GraphState::kOpen ? GraphState::kOpenModified : GraphState::kModified;
  } while (!state_.compare_exchange_weak(before, after, std::memory_order_acq_rel));
  return true;
}

void TrackedGraph::leave(const char* reason) noexcept {
  if (become_modified()) g_refusals.count(reason);
}

void TrackedGraph::capture_ended() noexcept {
  GraphState before = state_.load(std::memory_order_acquire), after = before;
  do {
    if (before != GraphState::kOpen && before != GraphState::kOpenModified) return;
    after = before == GraphState::kOpen ? GraphState::kUnmodified : GraphState::kModified;
  } while (!state_.compare_exchange_weak(before, after, std::memory_order_acq_rel));
}

void TrackedGraph::copy_deferred(const TrackedGraph& from) {
  assume_held(lock);  // nobody else reaches it, and both locks are of one rank
  binding = from.binding;
  recording = from.recording;
  original = from.original;
  parts = from.parts;
}

GraphPart* TrackedGraph::part(std::uint32_t index) noexcept {
  const auto found =
      std::find_if(parts.begin(), parts.end(), [index](const GraphPart& each) { return each.index == index; });
  return found == parts.end() ? nullptr : &*found;
}

bool same_but_payload(const Operation& operation, Describe describe, Binding* payload) {
  Signature signature;
  OperationWriter writer(signature, *payload);
  if (describe(writer) != Status::kOk) return false;
  // Where the node is and how a kernel was named stays as it was made.
  signature.form = operation.signature.form;
  signature.stream = operation.signature.stream;
  signature.thread = operation.signature.thread;
  signature.device = operation.signature.device;
  signature.payload_bytes = static_cast<std::uint32_t>(payload->size());
  if ((signature.validity & kDriverStyle) != 0) signature.object = operation.signature.object;
  return signature == operation.signature;
}

}  // namespace graphpool
