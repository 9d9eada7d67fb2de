// control_group.h: finds the control groups of this process, of both versions: where the files of a controller are, and
// how much processor time they allow.
//
// A limit of any group above counts too: they are visited from this process's own up to the mount point. In a container
// the path that the kernel names may lie outside of what is mounted: then only the mount point is looked at.
// Threads: any; nothing is kept. Nothing here allocates.
#pragma once

#include <cstdint>

#include "shim/compile/machine.h"

namespace graphpool {

inline constexpr std::size_t kGroupPathBytes = 1024;

/// The folder of this process's group, and how many bytes of its path are the mount point.
struct GroupFolder {
  char path[kGroupPathBytes] = "";
  std::size_t mount_bytes = 0;

  /// Moves on to the parent group. Returns false at the mount point, which has none.
  bool up() noexcept;
};

/// Finds the folder of this process's group for a controller. version: 1 or 2. False: there is no such group.
bool find_group(const Machine& machine, int version, const char* controller, GroupFolder& folder) noexcept;

/// Reads at most `bytes` of a group's file into `text`. Empty: there is nothing to read.
std::string_view read_group_file(const Machine& machine, const GroupFolder& folder, const char* name, char* text,
                                 std::size_t bytes) noexcept;

/// As many processors as the groups' time is worth, rounded up. 0: no limit.
std::uint32_t processor_quota(const Machine& machine) noexcept;

}  // namespace graphpool
