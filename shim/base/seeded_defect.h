// seeded_defect.h: faults put in on purpose, so that the property test (tests/property) and `verify` are known to find
// faults. Only a library that the tests build for themselves can have one, chosen by SEEDED_DEFECT, the number of the
// fault; in the library itself every answer is a constant, and nothing of this is left.
// The tests' library can also decide by chance what becomes of each capture. The program's results must not depend on
// it. SEEDED_COIN is the seed. Each thread draws numbers of its own. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace graphpool {

enum class Seeded : int {
  kForkLost = 1,             ///< a capture made real: operations do not come behind what they depend on
  kFillNarrowed,             ///< a fill made again writes the lowest byte of its value only
  kPatchShort,               ///< the last differing node of an exec is not patched
  kBindingIgnored,           ///< an exec is taken for one of another binding
  kTaintedServesOn,          ///< an exec that the program has changed serves others afterwards
  kCopyOutShort,             ///< staging: the last four bytes are not copied out
  kBuffersNotFollowed,       ///< staging: buffers that have moved are not followed
  kFreeDoesNotWait,          ///< freed memory is handed out again while the device still uses it
  kKeptNotCounted,           ///< kept memory does not count as free
  kUpdateIgnored,            ///< an exec goes on with the binding it had
  kCapturedFreeDoesNotWait,  ///< freed memory is handed out again at once while a capture is open
  kPendingServesCaptured,    ///< while a capture is open kept memory serves that the device may still use
  kUnloadLeavesFunctions,    ///< handles of functions are taken for what they were before their module was unloaded
  kSetShort,                 ///< setting a node of an exec does nothing where only the last four bytes differ
  kBusyVariantPatched,       ///< an exec is patched while it may run
  kThreadLeavesCaptures,     ///< captures of a thread's own stream outlive the thread
  kExportedStaged,           ///< staging: memory that other processes can reach is staged as any other
  kSettingsIgnored,          ///< attributes set of a kernel make no new kernel of it
  kInnerFreeKeeps,           ///< a free by an address inside an allocation frees nothing
  kSameBufferId,             ///< memory handed out again keeps the id of the allocation it was
  kDestroyedExecServes,      ///< a destroyed exec is launched as before
  // Found by `verify` (tests/preload):
  kDirectNotFollowed = 100,  ///< staging: launches without copies go on with the buffers there were
  // Found by the tests of streams made inside a capture (tests/preload):
  kKeptStreamLives,  ///< a stream that was kept when the program destroyed it answers on
};

/// What becomes of a capture.
enum class SeededWay : int {
  kUsual,
  kLeftAlone,  ///< it goes straight to the runtime
  kRecorded,   ///< it is recorded, although it may be known
};

#ifdef GRAPHPOOL_SEEDED_DEFECTS
inline bool seeded_defect(Seeded defect) noexcept {
  static const char* const chosen = std::getenv("SEEDED_DEFECT");
  return chosen != nullptr && std::atoi(chosen) == static_cast<int>(defect);
}
/// Decides what becomes of the capture that the calling thread begins. Half of all captures go the usual way.
inline SeededWay seeded_way() noexcept {
  static const char* const seed = std::getenv("SEEDED_COIN");
  if (seed == nullptr) return SeededWay::kUsual;
  static constinit std::atomic<std::uint64_t> threads{0};
  static constinit thread_local std::uint64_t state = 0;
  if (state == 0) state = std::strtoull(seed, nullptr, 10) * 1000 + ++threads;
  state += 0x9e3779b97f4a7c15u;
  std::uint64_t mixed = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
  const std::uint64_t side = mixed >> 62;
  return side < 2 ? SeededWay::kUsual : side == 2 ? SeededWay::kLeftAlone : SeededWay::kRecorded;
}
#else
constexpr bool seeded_defect(Seeded) noexcept { return false; }
constexpr SeededWay seeded_way() noexcept { return SeededWay::kUsual; }
#endif

}  // namespace graphpool
