// patch_candidate.h: finds the variant that is best patched for a binding, and says which updates are correct.
//
// Threads: any. Not here: what patches cost (costs/cost_model.h), and whether one is made (way_chooser.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "shim/execs/graph_settings.h"
#include "shim/execs/program_exec.h"
#include "shim/execs/recording.h"

namespace graphpool {

/// A variant to be patched for a binding.
struct PatchCandidate {
  Variant* variant = nullptr;            ///< null: there is none
  std::vector<std::uint32_t> differing;  ///< the operations whose nodes are to be set
  bool served = false;                   ///< it was the exec's own before
};

/// Finds a variant that can be patched for this binding: free or the exec's own, idle, with nodes that the runtime is
/// known to update correctly. It prefers one that was patched before, so that the others keep what they have; of
/// several, the one with the fewest nodes to be set.
PatchCandidate find_patchable(const ProgramExec& exec, const Binding& binding, const GraphSettings& settings)
    REQUIRES(g_recordings_lock);
/// Whether later bindings may be patched into some exec once it is free. Stops keeping what it finds to have outlived
/// memory.
bool has_patch_base(Recording& recording, int device) noexcept REQUIRES(g_recordings_lock);

/// How many nodes of one exec may be patched before it is replaced.
std::size_t patch_budget(const Recording& recording, const GraphSettings& settings) noexcept;
/// The cost of turning an exec of binding `from` into one of binding `to`: patches, or a new exec, which costs
/// `exec_ns`, if nothing of the recording may be patched, or the runtime is not known to update one of the nodes
/// correctly.
double rebind_ns(const Recording& recording, const Binding& from, const Binding& to, double exec_ns, std::size_t budget)
    REQUIRES(g_recordings_lock);

/// Whether the runtime is known to update every node of such an exec correctly, and verification found no difference.
bool updates_are_exact(const Recording& recording) noexcept REQUIRES(g_recordings_lock);
/// The nodes that an update of an exec's own variant changes.
struct UpdatedNodes {
  bool exact = false;         ///< the runtime is known to update them all correctly, and the variant was exact before
  std::size_t differing = 0;  ///< if not exact: only those up to the first that is not
};
/// Looks at an update to this binding. If the variant is of another recording, it changes every node.
UpdatedNodes updated_nodes(const ProgramExec& exec, const Binding& binding) noexcept REQUIRES(g_recordings_lock);
/// How many kernels such an update changes. Empty: it changes other nodes, too, or the variant is of another recording.
std::optional<std::size_t> only_kernels_updated(const ProgramExec& exec, const Binding& binding) noexcept
    REQUIRES(g_recordings_lock);

}  // namespace graphpool
