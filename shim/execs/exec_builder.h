// exec_builder.h: makes variants from graphs of our own, patches them, and notes what the program's own calls bake in.
//
// Invariants: a variant whose patch failed serves no further binding. One that was patched `patch_budget` times, or has
// no room left for the arguments of patched kernels (exec_size.h), is not patched again.
// Errors: HIP's. Threads: any. Not here: which variant is patched (patch_candidate.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "shim/execs/exec_store.h"
#include "shim/execs/patch_candidate.h"

namespace graphpool {

class ExecBuilder {
 public:
  ExecBuilder(ExecStore& store, const GraphSettings& settings) noexcept : store_(store), settings_(settings) {}

  /// Makes an exec from a graph of our own. No recording keeps it yet.
  hipError_t build(Recording& recording, const Binding& binding, int device, std::unique_ptr<Variant>* made)
      EXCLUDES(g_recordings_lock);
  /// Sets the nodes that differ. Pre-condition: a program exec owns the variant. Returns false if the variant is half
  /// patched: then it serves no further binding, and is gone unless it served its owner before.
  bool patch(Recording& recording, const Binding& binding, const PatchCandidate& candidate) EXCLUDES(g_recordings_lock);

  /// Notes for `verify`, before another binding is baked in, what the variant still writes to if it is updated wrongly.
  /// It may throw, so call it before the runtime changes the variant.
  void note_reached(const Recording& recording, Variant& variant) const REQUIRES(g_recordings_lock);
  /// Notes that the program's own update gave the whole variant this binding. `freed_before`: memory_freed() when the
  /// update began. If the runtime is not known to do all of it correctly, the variant serves its holder only.
  void note_updated(Recording& recording, Variant& variant, const Binding& binding, std::uint64_t freed_before)
      REQUIRES(g_recordings_lock);
  /// Notes that a call gave the operation's node this payload. `exact`: the runtime is known to do that correctly.
  void note_node_set(Recording& recording, Variant& variant, const Operation& operation, const std::byte* payload,
                     bool exact) REQUIRES(g_recordings_lock);

 private:
  bool set_nodes(const Recording& recording, const Binding& binding, const PatchCandidate& candidate,
                 std::uint32_t* patched) const;

  static constexpr std::size_t kMostReached = 65536;

  ExecStore& store_;
  const GraphSettings& settings_;
};

}  // namespace graphpool
