#include "shim/compile/memory_watch.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace graphpool {
namespace {

constexpr std::size_t kPathBytes = 1024;
constexpr std::size_t kTextBytes = 16384;  // mountinfo of a container host. On the stack: threads that compile have one

struct Text {
  char bytes[kTextBytes];
  std::string_view view;
};

bool read(const Machine& machine, const char* path, Text& text) noexcept {
  const ssize_t got = machine.read_file(path, text.bytes, sizeof text.bytes);
  text.view = got > 0 ? std::string_view(text.bytes, static_cast<std::size_t>(got)) : std::string_view();
  return got > 0;
}

template <typename Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    visit(line);
    at += line.size() + 1;
  }
}

std::string_view field(std::string_view line, int index, char separator = ' ') noexcept {
  for (; index > 0; --index) {
    const std::size_t end = line.find(separator);
    if (end == std::string_view::npos) return {};
    line.remove_prefix(end + 1);
  }
  return line.substr(0, line.find(separator));
}

bool has_item(std::string_view list, std::string_view item) noexcept {
  while (!list.empty()) {
    const std::string_view first = list.substr(0, list.find(','));
    if (first == item) return true;
    list.remove_prefix(std::min(list.size(), first.size() + 1));
  }
  return false;
}

/// One version of control groups: what its files are called.
struct Version {
  int number;
  const char *limit, *soft_limit, *usage, *droppable;
};
constexpr Version kVersions[] = {
    {1, "memory.limit_in_bytes", nullptr, "memory.usage_in_bytes", "total_inactive_file "},
    {2, "memory.max", "memory.high", "memory.current", "inactive_file "},
};

/// The folder of this process's group, and how much of it is the mount point. In a container the path the kernel names
/// may lie outside what is mounted: then the mount point is all there is to see.
struct Folder {
  char path[kPathBytes] = "";
  std::size_t mount_bytes = 0;
};

bool find_folder(const Machine& machine, const Version& version, Folder& folder) noexcept {
  Text text;
  char group[kPathBytes] = "";
  if (!read(machine, "/proc/self/cgroup", text)) return false;
  for_each_line(text.view, [&](std::string_view line) {
    const std::string_view number = field(line, 0, ':'), controllers = field(line, 1, ':');
    if (version.number == 2 ? number != "0" || !controllers.empty() : !has_item(controllers, "memory")) return;
    const std::size_t at = number.size() + controllers.size() + 2;
    const std::string_view path = at <= line.size() ? line.substr(at) : std::string_view();
    if (path.size() < sizeof group) group[path.copy(group, path.size())] = '\0';
  });
  if (group[0] == '\0' || !read(machine, "/proc/self/mountinfo", text)) return false;
  for_each_line(text.view, [&](std::string_view line) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos || folder.mount_bytes != 0) return;
    const std::string_view type = field(line.substr(dash + 3), 0);
    const std::string_view options = field(line.substr(dash + 3), 2);
    if (version.number == 2 ? type != "cgroup2" : type != "cgroup" || !has_item(options, "memory")) return;
    const std::string_view root = field(line, 3), mount = field(line, 4);
    std::string_view below = group;
    if (root != "/" && below.starts_with(root)) below.remove_prefix(root.size());
    if (below == "/") below = {};
    if (mount.size() + below.size() >= sizeof folder.path) return;
    folder.mount_bytes = mount.copy(folder.path, mount.size());
    folder.path[folder.mount_bytes + below.copy(folder.path + folder.mount_bytes, below.size())] = '\0';
  });
  return folder.mount_bytes != 0;
}

/// The number in a file of a group; none: no such file, or "max".
bool read_number(const Machine& machine, const char* folder, const char* name, std::uint64_t& number) noexcept {
  char path[kPathBytes + 64], text[64];
  std::snprintf(path, sizeof path, "%s/%s", folder, name);
  const ssize_t got = machine.read_file(path, text, sizeof text - 1);
  if (got <= 0 || text[0] < '0' || text[0] > '9') return false;
  number = 0;
  for (ssize_t i = 0; i < got && text[i] >= '0' && text[i] <= '9'; ++i)
    number = number * 10 + static_cast<std::uint64_t>(text[i] - '0');
  return true;
}

void apply(const Machine& machine, const Version& version, const char* folder, MemoryFacts& facts) noexcept {
  // Version 1 writes "no limit" as a number near the largest.
  constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;
  std::uint64_t limit = kNoLimit, soft = kNoLimit, usage = 0;
  static_cast<void>(read_number(machine, folder, version.limit, limit));
  if (version.soft_limit != nullptr && read_number(machine, folder, version.soft_limit, soft))
    limit = std::min(limit, soft);
  if (limit >= kNoLimit || !read_number(machine, folder, version.usage, usage)) return;
  Text text;
  char path[kPathBytes + 64];
  std::snprintf(path, sizeof path, "%s/memory.stat", folder);
  const std::int64_t droppable = read(machine, path, text) ? number_after(text.view, version.droppable) : -1;
  usage -= std::min(usage, droppable > 0 ? static_cast<std::uint64_t>(droppable) : 0);
  if (facts.allowed_bytes == 0 || limit < facts.allowed_bytes) facts.allowed_bytes = limit;
  facts.available_bytes = std::min(facts.available_bytes, limit - std::min(limit, usage));
}

void read_machine(const Machine& machine, MemoryFacts& facts) noexcept {
  Text text;
  if (read(machine, "/proc/meminfo", text)) {
    facts.allowed_bytes =
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, number_after(text.view, "MemTotal:"))) * 1024;
    facts.available_bytes =
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, number_after(text.view, "MemAvailable:"))) * 1024;
  }
  if (read(machine, "/proc/pressure/memory", text))
    facts.pressure_percent =
        static_cast<std::uint32_t>(std::max<std::int64_t>(0, number_after(text.view, "some avg10=")));
}

}  // namespace

MemoryFacts read_memory(const Machine& machine) noexcept {
  MemoryFacts facts;
  read_machine(machine, facts);
  for (const Version& version : kVersions) {
    Folder folder;
    if (!find_folder(machine, version, folder)) continue;
    // Up to the mount point: a limit of any group above counts.
    for (std::size_t length = std::strlen(folder.path);; folder.path[length] = '\0') {
      apply(machine, version, folder.path, facts);
      if (length <= folder.mount_bytes) break;
      while (length > folder.mount_bytes && folder.path[length - 1] != '/') --length;
      if (length > folder.mount_bytes) --length;
    }
  }
  return facts;
}

}  // namespace graphpool
