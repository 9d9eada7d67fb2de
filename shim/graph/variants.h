// variants.h: the execs a template keeps, and which of them serves a binding.
//
// A virtual exec needs a variant with its binding baked in: obtain() takes a free one that has it; else patches a free
// one, where the runtime is known to update the differing nodes correctly (rule 9); else makes one. A variant is free
// when its holder is gone and its last launch is known to be complete (rule 20); until then another is made. What
// serves a binding exists when obtain() returns success, so a launch only selects (rule 15).
//
// Invariants: a variant whose patch failed is never used again. At most `most_variants` a template, as far as they are
// free; the least recently used go first.
// Errors: HIP's. Threads: any. Lock: that of Graphs (kTemplates), never held across next but where a function says
// "under the lock": its caller holds it.
// Not here: handles, graphs and launches (graphs.h), slots (memory/slot_set.h), what a launch copies (staging.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "policy/values.h"
#include "shim/function_ref.h"
#include "shim/graph/template.h"
#include "shim/graph/virtual_exec.h"
#include "shim/lock_rank.h"

namespace graphpool {

struct GraphSettings {
  bool virtual_capture = true;
  bool reuse = true;
  Strategy strategy = Strategy::kAuto;
  std::size_t most_templates = 256;
  std::size_t most_variants = 8;      ///< of one template
  std::uint32_t patch_budget = 1000;  ///< patches of one exec before it is replaced
};

class Variants {
 public:
  /// Makes a variant from the program's own graph.
  using NativeVariant = FunctionRef<hipError_t(std::unique_ptr<Variant>*)>;
  /// Variants on their way out: destroyed by the caller, after unlocking.
  using Retired = std::vector<std::unique_ptr<Variant>>;
  using Lock = RankedMutex<LockRank::kTemplates>;

  Variants(Lock& lock, const GraphSettings& settings) noexcept : lock_(lock), settings_(settings) {}

  /// The variant that serves this binding, owned by `exec`: a free one that has it, a patched one, or a new one.
  hipError_t obtain(VirtualExec& exec, const Binding& binding, const NativeVariant* native, Variant** variant);

  /// An exec from a graph of our own.
  hipError_t build(Template& of, const Binding& binding, int device, std::unique_ptr<Variant>* made);

  /// Under the lock: takes a variant out of its template.
  std::unique_ptr<Variant> remove(Template& of, const Variant* variant) noexcept;
  /// Under the lock: where a template has too many variants, the least recently used free ones go.
  void trim(Template& of, Retired* retired);

  /// Under the lock: instantiates that a free variant served.
  std::uint64_t avoided() const noexcept { return avoided_; }

 private:
  hipError_t obtain_staged(VirtualExec& exec, const Binding& binding, Variant** variant);
  Variant* take_free(Template& of, const Binding& binding, int device, const VirtualExec* owner);
  Variant* choose_patchable(Template& of, const Binding& binding, int device);
  Variant* patch_free(Template& of, const Binding& binding, int device, const VirtualExec* owner);
  Variant* adopt(Template& of, std::unique_ptr<Variant> variant, const VirtualExec* owner);

  Lock& lock_;
  const GraphSettings& settings_;
  std::uint64_t clock_ = 0;  ///< orders uses of variants
  std::uint64_t avoided_ = 0;
};

}  // namespace graphpool
