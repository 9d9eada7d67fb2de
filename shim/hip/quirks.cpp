#include "shim/hip/quirks.h"

#include <algorithm>
#include <array>
#include <limits>

#include "shim/hip/hip_version.h"
#include "shim/hip/restore.h"

namespace graphpool {
namespace {

constexpr int kAlways = std::numeric_limits<int>::max();

constexpr std::array kQuirks{
    // clr 6.3: map and unmap are commands on the null stream. A direct call in the sources of 7.14; between: unknown.
    Quirk{Defect::kMapWaits, 0, hip_version(7, 14), "mapping waits for the work of the device's streams",
          "memory is mapped only while nothing is outstanding on the device; otherwise classic memory is used",
          "mapping_waits_for_nothing"},
    // clr after 6.3 rocblit.cpp: the value of an exec's fill lies in the room for kernel arguments of the null stream,
    // which a map empties: the next exec with a fill writes over it. Natively as well, as some thousand kernels on the
    // null stream do. Seen on 6.4.3, not on 7.2.4; 7.0 and 7.1 are not known.
    Quirk{Defect::kMapSpoilsFills, hip_version(6, 4), hip_version(7, 2),
          "a map makes fills of execs write the value of another fill", "no memory is mapped: classic memory is used",
          "mapping_leaves_fills"},
    // clr 6.1, the first with VMM on Linux: sub-range maps came with 6.2.
    Quirk{Defect::kMapWholeReservation, 0, hip_version(6, 2), "only whole reservations can be mapped",
          "reservations have the chunk's size and the alignment the runtime happens to give", "parts_are_mapped"},
    // clr 6.3 hip_vm.cpp: the command's status is not looked at.
    Quirk{Defect::kMapErrorsHidden, 0, kAlways, "hipMemMap reports success although it failed",
          "a mapping is believed once hipMemSetAccess succeeded and hipMemGetAccess confirms it",
          "mapping_tells_errors"},
    // clr 6.3 hip_vm.cpp: the 0 handed to ROCr is its flags word; the wanted address is a hint.
    Quirk{Defect::kReserveIgnoresHints, 0, kAlways, "alignment and wanted address of a reservation are ignored",
          "more is reserved and the range aligned by hand; the address is read back", "reservations_are_aligned"},
    // clr 6.3 hip_vm.cpp:42-50,352-355.
    Quirk{Defect::kUnmapUnknownCrashes, 0, kAlways, "unmapping or freeing an unknown address crashes",
          "only what was mapped and reserved here is ever unmapped and freed, once", "strange_mapping_is_refused"},
    // ROCm/clr#265: rejected by the runtime since 2026-03.
    Quirk{Defect::kIpcOfVmmCrashes, 0, hip_version(7, 14), "an IPC handle of VMM memory can crash the kernel driver",
          "on every version the call is made with an address that the runtime refuses, and a line names backing = "
          "\"classic\"",
          "handles_of_mappings_are_refused"},
    // Headers of 5.5 and 5.6.
    Quirk{Defect::kOldAllocationProperties, 1, hip_version(5, 6), "hipMemAllocationProp has another order of members",
          "the structure is filled in by the runtime's version", "mappings_work"},
    // clr 5.7 and 6.3 hip_event.cpp: only nodes of the stream replace those that the event stands for. Seen on 5.7.1
    // and 6.4.3, not on 7.2.4.
    Quirk{Defect::kEventsKeepNodes, 0, hip_version(7, 0),
          "an event recorded in a capture on a stream without a node keeps the nodes it stood for last",
          "in a shell streams come behind each other by events of the library's own", "event_forgets_nodes"},
    // Seen on 7.2.4, without the library too where nothing is freed between the steps; not on 6.4.3.
    Quirk{Defect::kExecsEndLate, hip_version(7, 0), kAlways,
          "an exec destroyed after its launch may end on the thread that runs host functions, where it waits for its "
          "streams, and so for host functions of later launches",
          "the next free on its device waits by a free of the runtime's own, for all streams as natively", ""},
};

}  // namespace

std::span<const Quirk> quirks() noexcept { return kQuirks; }

bool has_defect(Defect defect, int version) noexcept {
  return std::any_of(kQuirks.begin(), kQuirks.end(), [&](const Quirk& quirk) {
    return quirk.defect == defect && version >= quirk.first_version && version < quirk.fixed_version;
  });
}

/// Stores the defects before the version, so that a thread that sees the version sees its defects.
static void know_version(int version) noexcept {
  std::uint32_t defects = 0;
  for (const Quirk& quirk : kQuirks)
    if (has_defect(quirk.defect, version)) defects |= 1u << static_cast<unsigned>(quirk.defect);
  g_defects.store(defects, std::memory_order_relaxed);
  g_runtime_version.store(version, std::memory_order_release);
}

int ask_runtime_version() noexcept {
  int known = -1;
  const hipError_t pending = next().hipPeekAtLastError();
  const auto failed = [&] { return next().hipRuntimeGetVersion(&known) != hipSuccess || known < 0; };
  const bool failed_once = failed();
  if (failed_once && failed()) known = 0;
  know_version(known);
  if (failed_once) clear_error(known < kKeepsErrors ? hipSuccess : pending);
  return known;
}

void test_set_runtime_version(int version) noexcept { know_version(version); }

}  // namespace graphpool
