#include "shim/compile/control_group.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace graphpool {
namespace {

constexpr std::size_t kTextBytes = 16384;  // for mountinfo of container hosts; compiling threads have the stack

template <typename Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
    visit(line);
    begin += line.size() + 1;
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

std::string_view read(const Machine& machine, const char* path, char* text, std::size_t bytes) noexcept {
  const ssize_t got = machine.read_file(path, text, bytes);
  return got > 0 ? std::string_view(text, static_cast<std::size_t>(got)) : std::string_view();
}

/// The number at the start of a text; false: there is none ("max", -1), or 0.
bool positive_number(std::string_view text, std::uint64_t& number) noexcept {
  return std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc() && number != 0;
}

/// Reads what a group's files allow: processor time in each period. Version 1 has a file for each, version 2 one for
/// both.
bool read_quota(const Machine& machine, int version, const GroupFolder& folder, std::uint64_t& time,
                std::uint64_t& period) noexcept {
  char text[64], other[64];
  const std::string_view first =
      read_group_file(machine, folder, version == 2 ? "cpu.max" : "cpu.cfs_quota_us", text, sizeof text);
  const std::string_view second =
      version == 2 ? field(first, 1) : read_group_file(machine, folder, "cpu.cfs_period_us", other, sizeof other);
  return positive_number(first, time) && positive_number(second, period);
}

}  // namespace

bool GroupFolder::up() noexcept {
  std::size_t length = std::string_view(path).size();
  if (length <= mount_bytes) return false;
  while (length > mount_bytes && path[length - 1] != '/') --length;
  if (length > mount_bytes) --length;
  path[length] = '\0';
  return true;
}

bool find_group(const Machine& machine, int version, const char* controller, GroupFolder& folder) noexcept {
  char text[kTextBytes], group[kGroupPathBytes] = "";
  for_each_line(read(machine, "/proc/self/cgroup", text, sizeof text), [&](std::string_view line) {
    const std::string_view number = field(line, 0, ':'), controllers = field(line, 1, ':');
    if (version == 2 ? number != "0" || !controllers.empty() : !has_item(controllers, controller)) return;
    const std::size_t begin = number.size() + controllers.size() + 2;
    const std::string_view path = begin <= line.size() ? line.substr(begin) : std::string_view();
    if (path.size() < sizeof group) group[path.copy(group, path.size())] = '\0';
  });
  if (group[0] == '\0') return false;
  for_each_line(read(machine, "/proc/self/mountinfo", text, sizeof text), [&](std::string_view line) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos || folder.mount_bytes != 0) return;
    const std::string_view type = field(line.substr(dash + 3), 0);
    const std::string_view options = field(line.substr(dash + 3), 2);
    if (version == 2 ? type != "cgroup2" : type != "cgroup" || !has_item(options, controller)) return;
    const std::string_view root = field(line, 3), mount = field(line, 4);
    std::string_view below = group;
    if (root != "/" && below.starts_with(root) && (below.size() == root.size() || below[root.size()] == '/'))
      below.remove_prefix(root.size());
    if (below == "/") below = {};
    if (mount.size() + below.size() >= sizeof folder.path) return;
    folder.mount_bytes = mount.copy(folder.path, mount.size());
    folder.path[folder.mount_bytes + below.copy(folder.path + folder.mount_bytes, below.size())] = '\0';
  });
  return folder.mount_bytes != 0;
}

std::string_view read_group_file(const Machine& machine, const GroupFolder& folder, const char* name, char* text,
                                 std::size_t bytes) noexcept {
  char path[kGroupPathBytes + 64];
  std::snprintf(path, sizeof path, "%s/%s", folder.path, name);
  return read(machine, path, text, bytes);
}

std::uint32_t processor_quota(const Machine& machine) noexcept {
  std::uint64_t least = 0;
  for (const int version : {1, 2}) {
    GroupFolder folder;
    if (!find_group(machine, version, "cpu", folder)) continue;
    do {
      std::uint64_t time = 0, period = 0;
      if (!read_quota(machine, version, folder, time, period)) continue;
      const std::uint64_t worth = (time - 1) / period + 1;
      if (least == 0 || worth < least) least = worth;
    } while (folder.up());
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(least, UINT32_MAX));
}

}  // namespace graphpool
