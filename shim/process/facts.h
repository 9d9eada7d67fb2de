// facts.h: lists what the engine relies on of a HIP runtime, each fact with the probe of tests/probes that asks for it.
//
// Why: a runtime that does otherwise gives wrong results without an error. The decisions themselves stay where they are
// made (recording/patch_table.h, hip/quirks.h, constants with "probe" beside them); this table asks them, so that it
// has no version of its own. tests/probes compares its rows with the probes, and scripts/graphpool selftest asks a
// user's runtime. Threads: any. Not here: what the engine tries at run time and does without where it fails.
#pragma once

#include <span>

namespace graphpool {

struct Fact {
  const char* probe;
  bool (*relied_on)(int version);  ///< hipRuntimeGetVersion's
  /// Lines of a policy with which the engine does without. Empty: the engine never relies on it.
  const char* otherwise;
};

/// All of them. A probe is in one row.
std::span<const Fact> facts() noexcept;

}  // namespace graphpool
