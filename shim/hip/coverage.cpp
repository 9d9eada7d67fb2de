#include "shim/hip/coverage.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "shim/base/log.h"
#include "shim/hip/elf_image.h"
#include "shim/hip/entry.h"
#include "shim/hip/lookup.h"
#include "shim/hip/next.h"
#include "shim/hip/process_policy.h"

namespace graphpool {
namespace {

constinit std::atomic<bool> g_unknown_in_use{false};
constinit std::atomic<bool> g_runtime_has_unknown{false};
/// How many objects the loader had ever loaded at the last check.
constinit std::atomic<std::uint64_t> g_checked_epoch{0};

/// The first unknown function that was looked up before the library had started: programs that open the runtime
/// themselves look everything up first.
std::array<char, 128> g_early_lookup{};
constinit std::atomic<bool> g_early_lookup_taken{false}, g_early_lookup_set{false};

bool is_hip_function(std::string_view name) noexcept {
  return name.size() > 3 && name.starts_with("hip") && name[3] >= 'A' && name[3] <= 'Z';
}

/// Whether the object is the runtime itself.
bool is_runtime(const ElfImage& image) noexcept {
  return g_runtime_bytes.load(std::memory_order_relaxed) != 0 && image.text_begin() == g_runtime_begin;
}

void found(std::string_view name, std::string_view how) noexcept {
  if (policy().graph.unknown == Unknown::kTrust || g_unknown_in_use.exchange(true)) return;
  log_warn(
      "%.*s is %.*s but unknown to this version of the library: graphs are left to the runtime (policy key "
      "graph.unknown = \"trust\" overrides)",
      static_cast<int>(name.size()), name.data(), static_cast<int>(how.size()), how.data());
}

}  // namespace

bool unknown_entries_in_use() noexcept { return g_unknown_in_use.load(std::memory_order_relaxed); }

bool every_entry_known() noexcept { return !g_runtime_has_unknown.load(std::memory_order_relaxed); }

void check_coverage() noexcept {
  constexpr std::size_t kMost = 256;
  std::string_view unknown[kMost];
  std::size_t count = 0;
  g_checked_epoch.store(loaded_objects_epoch(), std::memory_order_relaxed);
  for_each_image([&](const ElfImage& image) {
    if (!image.valid() || !is_runtime(image)) return false;
    image.for_each_symbol([&](std::string_view name, bool is_import) {
      if (!is_import && is_hip_function(name) && find_entry(name) == EntryId::kCount && count < kMost)
        unknown[count++] = name;
    });
    return true;
  });
  g_runtime_has_unknown.store(count != 0, std::memory_order_relaxed);
  if (count == 0) return;
  if (g_early_lookup_set.load(std::memory_order_acquire)) found(g_early_lookup.data(), "looked up");
  std::array<char, 128> in_use{};
  for_each_image([&](const ElfImage& image) {
    if (!image.valid() || is_runtime(image)) return false;
    image.for_each_symbol([&](std::string_view name, bool is_import) {
      if (!is_import || !is_hip_function(name) || std::find(unknown, unknown + count, name) == unknown + count) return;
      in_use.fill('\0');
      name.copy(in_use.data(), in_use.size() - 1);
    });
    return in_use[0] != '\0';
  });
  if (in_use[0] != '\0') found(in_use.data(), "imported by a loaded object");
}

void check_objects_loaded_since() noexcept {
  if (!g_runtime_has_unknown.load(std::memory_order_relaxed) || unknown_entries_in_use()) return;
  // Another thread may have noted one when the check of the start was over.
  if (g_early_lookup_set.load(std::memory_order_acquire)) found(g_early_lookup.data(), "looked up");
  if (loaded_objects_epoch() != g_checked_epoch.load(std::memory_order_relaxed)) check_coverage();
}

void note_unknown_lookup(const char* name, const void* address) noexcept {
  resolve_next();
  if (!is_hip_function(name) || !in_runtime(address)) return;
  if (g_mode.load(std::memory_order_acquire) != Mode::kStarting) {
    if (active()) found(name, "looked up");
  } else if (!g_early_lookup_taken.exchange(true)) {
    std::strncpy(g_early_lookup.data(), name, g_early_lookup.size() - 1);
    g_early_lookup_set.store(true, std::memory_order_release);
  }
}

}  // namespace graphpool
