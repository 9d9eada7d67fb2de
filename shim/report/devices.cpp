// devices.cpp: see devices.h.
#include "shim/report/devices.h"

#include <dirent.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "shim/base/small_file.h"

namespace graphpool {
namespace {

constexpr std::size_t kMostDevices = 64;

/// The beginning of one of the kernel's small files; empty where it cannot be read.
std::string file_text(const std::string& path) {
  std::array<char, 4096> text{};
  const ssize_t length = read_small_file(path.c_str(), text.data(), text.size());
  return std::string(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const listing = opendir(folder.c_str());
  if (listing == nullptr) return names;
  while (const dirent* entry = readdir(listing))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  closedir(listing);
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return names;
}

/// The rest of the first line that begins with `word`, without the blanks before it; empty where there is no such line.
std::string_view value_of(std::string_view text, std::string_view word) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(word)) continue;
    line.remove_prefix(word.size());
    const std::size_t first = line.find_first_not_of(" \t");
    if (first != std::string_view::npos) return line.substr(first);
  }
  return {};
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The name of an architecture from the number that the driver has for it: the last two decimal digits are the
/// stepping, the two before them the minor version. 90402 is gfx942, and 90010 is gfx90a.
std::string architecture_of(std::uint64_t version) {
  constexpr char kHex[] = "0123456789abcdef";
  return "gfx" + std::to_string(version / 10000) + kHex[version / 100 % 100 & 15] + kHex[version % 100 & 15];
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::vector<DeviceSeen> devices_seen(const std::string& root) {
  std::vector<DeviceSeen> devices;
  const std::string amd = root + "/sys/class/kfd/kfd/topology/nodes";
  for (const std::string& node : names_in(amd)) {
    const std::string properties = file_text(amd + '/' + node + "/properties");
    const std::uint64_t version = number(value_of(properties, "gfx_target_version "));
    if (version == 0 || devices.size() == kMostDevices) continue;  // version 0 is a processor
    devices.push_back({first_line(file_text(amd + '/' + node + "/name")), architecture_of(version)});
  }
  if (!devices.empty()) return devices;
  const std::string nvidia = root + "/proc/driver/nvidia/gpus";
  for (const std::string& gpu : names_in(nvidia)) {
    const std::string information = file_text(nvidia + '/' + gpu + "/information");
    if (devices.size() < kMostDevices) devices.push_back({std::string(value_of(information, "Model:")), ""});
  }
  return devices;
}

}  // namespace graphpool
