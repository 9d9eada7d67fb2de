// quirks.h: lists known defects of HIP runtimes: in which versions, what goes wrong, what the library does instead.
//
// Why one table: a workaround that nobody can find never goes away. Versions are hipRuntimeGetVersion's, never the
// SONAME's (libamdhip64.so.5 spans 5.0 to 5.7). Sources: clr at the tags and commits named in the rows' comments.
// Threads: any; threads that come first at the same time each ask for the version. Not here: whether VMM works at all,
// which is tried (memory/vmm.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace graphpool {

enum class Defect : std::uint8_t {
  kMapWaits,                 ///< hipMemMap waits for the device's streams
  kMapWholeReservation,      ///< hipMemMap maps a whole reservation or fails
  kMapErrorsHidden,          ///< hipMemMap may report success although nothing was mapped
  kReserveIgnoresHints,      ///< hipMemAddressReserve ignores the alignment and the wanted address
  kUnmapUnknownCrashes,      ///< hipMemUnmap and hipMemAddressFree of an unknown address crash
  kIpcOfVmmCrashes,          ///< hipIpcGetMemHandle of VMM memory gives a handle that can crash the kernel driver
  kOldAllocationProperties,  ///< hipMemAllocationProp has its members in another order
  kEventsKeepNodes,          ///< an event recorded in a capture may stand for nodes of an earlier one
  kMapSpoilsFills,           ///< hipMemMap and hipMemUnmap may change what fills of execs write
  kExecsEndLate,             ///< a destroyed exec may end on the thread that runs host functions, and wait there
};

struct Quirk {
  Defect defect;
  int first_version;  ///< first version that is taken to have it; 0: all before fixed_version, and an unknown one
  int fixed_version;  ///< first version that is taken not to have it; the largest int: none
  const char* what;
  const char* counter_measure;
  const char* probe;  ///< the probe that asks for it (shim/process/facts.h); empty: none can, because it is a race
};

/// All of them.
std::span<const Quirk> quirks() noexcept;

/// Whether the runtime of this version has the defect.
bool has_defect(Defect defect, int version) noexcept;
inline constinit std::atomic<int> g_runtime_version{-1};  ///< negative: not asked for yet
int ask_runtime_version() noexcept;
/// hipRuntimeGetVersion's answer, kept once it is known. 0: it gives none; those with first_version 0 are assumed then.
inline int runtime_version() noexcept {
  const int known = g_runtime_version.load(std::memory_order_acquire);
  return known >= 0 ? known : ask_runtime_version();
}

inline constinit std::atomic<std::uint32_t> g_defects{0};  ///< a bit for each, known when the version is
/// Whether the loaded runtime has the defect.
inline bool has_defect(Defect defect) noexcept {
  static_cast<void>(runtime_version());
  return (g_defects.load(std::memory_order_relaxed) >> static_cast<unsigned>(defect) & 1) != 0;
}

/// Unit tests play other versions; a negative one makes the next question ask the runtime again.
void test_set_runtime_version(int version) noexcept;

}  // namespace graphpool
