#include "shim/execs/exec_size.h"

#include <algorithm>
#include <limits>

#include "shim/base/units.h"
#include "shim/hip/hip_version.h"
#include "shim/hip/next.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/memory/device_memory.h"
#include "shim/recording/edges.h"
#include "shim/recording/operation_functions.h"

namespace graphpool {
namespace {

constexpr std::size_t kChunk = 128 * kKiB;
constexpr std::size_t kStream = kMiB;
constexpr std::size_t kMostStreams = 4;
/// So much of a chunk is not used, for kernels that have more arguments than their metadata says.
constexpr std::size_t kMargin = 8 * kKiB;

/// Counts the lists that the operations form: an operation goes on a list whose last operation it depends on, if there
/// is one; else it begins a list.
std::size_t lists(const std::vector<Operation>& operations) {
  std::vector<bool> followed(operations.size(), false);
  std::size_t count = 0;
  const auto dependencies = dependencies_of(operations);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (!makes_node(operations[i].signature.kind)) continue;
    const auto before = std::find_if(dependencies[i].begin(), dependencies[i].end(),
                                     [&](std::uint32_t index) { return !followed[index]; });
    if (before == dependencies[i].end())
      ++count;
    else
      followed[*before] = true;
  }
  return count;
}

std::size_t streams(const std::vector<Operation>& operations, int version) {
  const std::size_t count = lists(operations);
  if (count <= 1) return version < hip_version(7, 2) ? 1 : 0;
  return version < hip_version(6, 3) ? count : std::min(count, kMostStreams);
}

}  // namespace

std::size_t argument_memory(const Operation& operation) noexcept {
  return with_kind(operation.signature.kind, [&](auto kind) { return kind.argument_memory(operation); });
}

std::size_t exec_memory(const std::vector<Operation>& operations, int version) {
  std::size_t bytes = streams(operations, version) * kStream;
  if (version >= hip_version(6, 3)) bytes += kChunk;
  if (version >= hip_version(6, 0))
    for (const Operation& operation : operations) bytes += argument_memory(operation);
  return bytes;
}

std::size_t room_for_patches(int version) noexcept {
  if (version < hip_version(6, 2)) return std::numeric_limits<std::size_t>::max();
  return version < hip_version(6, 3) ? 0 : kChunk - kMargin;
}

void make_argument_room(int device, std::size_t before, std::size_t bytes, std::size_t exec_bytes) noexcept {
  const int version = runtime_version();
  if (version < hip_version(6, 2)) return;
  const auto chunks = [](std::size_t taken) { return (taken + kMargin) / kChunk; };
  const bool has_room = before != 0 || version >= hip_version(6, 3);
  if (has_room && chunks(before) == chunks(before + bytes)) return;
  const std::size_t needed = 4 * (exec_bytes + kChunk) + bytes;
  const SavedDevice scope;
  scope.set(device);
  const auto enough = [&] {
    std::size_t free = 0, total = 0;
    return PrivateCalls::answered([&] { return next().hipMemGetInfo(&free, &total); }) && free >= needed;
  };
  if (enough()) return;
  static_cast<void>(memory_room().trim(device, needed));
  if (!enough()) static_cast<void>(memory_room().reclaim(device));
}

}  // namespace graphpool
