#include "shim/compile/memory_watch.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "shim/compile/control_group.h"

namespace graphpool {
namespace {

constexpr std::size_t kTextBytes = 8192;

/// One version of control groups: what its files are called.
struct Version {
  int number;
  const char *limit, *soft_limit, *usage, *droppable;
};
constexpr Version kVersions[] = {
    {1, "memory.limit_in_bytes", nullptr, "memory.usage_in_bytes", "total_inactive_file "},
    {2, "memory.max", "memory.high", "memory.current", "inactive_file "},
};

/// The number in a file of a group; false: no such file, or "max".
bool read_number(const Machine& machine, const GroupFolder& folder, const char* name, std::uint64_t& number) noexcept {
  char text[64];
  const std::string_view got = read_group_file(machine, folder, name, text, sizeof text);
  return std::from_chars(got.data(), got.data() + got.size(), number).ec == std::errc();
}

void apply(const Machine& machine, const Version& version, const GroupFolder& folder, MemoryFacts& facts) noexcept {
  // Version 1 writes "no limit" as a number near the largest.
  constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;
  std::uint64_t limit = kNoLimit, soft = kNoLimit, usage = 0;
  static_cast<void>(read_number(machine, folder, version.limit, limit));
  if (version.soft_limit != nullptr && read_number(machine, folder, version.soft_limit, soft))
    limit = std::min(limit, soft);
  if (limit >= kNoLimit || !read_number(machine, folder, version.usage, usage)) return;
  char text[kTextBytes];
  const std::int64_t droppable =
      number_after(read_group_file(machine, folder, "memory.stat", text, sizeof text), version.droppable);
  usage -= std::min(usage, droppable > 0 ? static_cast<std::uint64_t>(droppable) : 0);
  if (facts.allowed_bytes == 0 || limit < facts.allowed_bytes) facts.allowed_bytes = limit;
  facts.available_bytes = std::min(facts.available_bytes, limit - std::min(limit, usage));
}

void read_machine(const Machine& machine, MemoryFacts& facts) noexcept {
  char text[kTextBytes];
  const auto number = [&](const char* path, std::string_view key) {
    const ssize_t got = machine.read_file(path, text, sizeof text);
    const std::string_view view(text, got > 0 ? static_cast<std::size_t>(got) : 0);
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, number_after(view, key)));
  };
  facts.allowed_bytes = number("/proc/meminfo", "MemTotal:") * 1024;
  facts.available_bytes = number("/proc/meminfo", "MemAvailable:") * 1024;
  facts.pressure_percent = static_cast<std::uint32_t>(number("/proc/pressure/memory", "some avg10="));
}

}  // namespace

MemoryFacts read_memory(const Machine& machine) noexcept {
  MemoryFacts facts;
  read_machine(machine, facts);
  for (const Version& version : kVersions) {
    GroupFolder folder;
    if (!find_group(machine, version.number, "memory", folder)) continue;
    do apply(machine, version, folder, facts);
    while (folder.up());
  }
  return facts;
}

}  // namespace graphpool
