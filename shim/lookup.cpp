#include "shim/lookup.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "shim/coverage.h"
#include "shim/elf_image.h"
#include "shim/entry.h"
#include "shim/next.h"

using DlsymFunction = void* (*)(void*, const char*);
using DlvsymFunction = void* (*)(void*, const char*, const char*);

/// Where the stubs in forward.S jump to.
extern "C" {
__attribute__((visibility("hidden"))) DlsymFunction gp_real_dlsym = nullptr;
__attribute__((visibility("hidden"))) DlvsymFunction gp_real_dlvsym = nullptr;
}

namespace graphpool {
namespace {

constexpr std::array<std::string_view, kEntryCount> kNames = {
#define HIP_HOOK(result, name, params, args, node, declared, effect) #name,
#define HIP_NEXT(result, name, params, args, node, declared, effect) #name,
#define HIP_FORWARD(name, node, effect) #name,
#include "hooks/hip_hooks.def"
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD
};

struct Name {
  std::string_view text;
  EntryId id;
};

constexpr auto kSortedNames = [] {
  std::array<Name, kEntryCount> names{};
  for (std::size_t i = 0; i < kEntryCount; ++i) names[i] = {kNames[i], static_cast<EntryId>(i)};
  std::sort(names.begin(), names.end(), [](const Name& a, const Name& b) { return a.text < b.text; });
  return names;
}();

struct Alias {
  std::string_view exported, name;
};
constexpr Alias kAliases[] = {
#define HIP_ALIAS(name, exported) {#exported, #name},
#include "hooks/hip_aliases.def"
#undef HIP_ALIAS
};

/// dlsym and dlvsym of the C library itself: our exports of the same names must not be found, so the symbol table of
/// the object is read directly. glibc 2.34 moved both from libdl to libc.
void find_real_functions() noexcept {
  DlsymFunction found = nullptr;
  DlvsymFunction found_v = nullptr;
  for_each_image([&](const ElfImage& image) {
    const std::string_view name = image.basename();
    if (!name.starts_with("libc.so.") && !name.starts_with("libdl.so.")) return false;
    if (void* address = image.find_export("dlsym")) found = reinterpret_cast<DlsymFunction>(address);
    if (void* address = image.find_export("dlvsym")) found_v = reinterpret_cast<DlvsymFunction>(address);
    return found != nullptr && found_v != nullptr;
  });
  __atomic_store_n(&gp_real_dlvsym, found_v, __ATOMIC_RELEASE);
  __atomic_store_n(&gp_real_dlsym, found, __ATOMIC_RELEASE);
}

void ensure_real_functions() noexcept {
  if (__atomic_load_n(&gp_real_dlsym, __ATOMIC_ACQUIRE) == nullptr) find_real_functions();
}

struct Answer {
  void* address;
  std::uint64_t answered;
};
constexpr Answer kNotAnswered{nullptr, 0};

bool looks_like_hip(const char* name) noexcept {
  return (name[0] == 'h' && name[1] == 'i' && name[2] == 'p') ||
         (name[0] == '_' && (std::strncmp(name, "__hip", 5) == 0 || (name[1] == 'Z' && name[2] != 0 && name[3] != 0 &&
                                                                     std::strncmp(name + 4, "hip", 3) == 0)));
}

}  // namespace

EntryId find_entry(std::string_view name) noexcept {
  for (const Alias& alias : kAliases)
    if (alias.exported == name) name = alias.name;
  const auto* found = std::lower_bound(kSortedNames.begin(), kSortedNames.end(), name,
                                       [](const Name& entry, std::string_view wanted) { return entry.text < wanted; });
  return found != kSortedNames.end() && found->text == name ? found->id : EntryId::kCount;
}

std::string_view entry_name(EntryId id) noexcept { return kNames[static_cast<std::size_t>(id)]; }

void* real_dlsym(void* handle, const char* name) noexcept {
  ensure_real_functions();
  return gp_real_dlsym == nullptr ? nullptr : gp_real_dlsym(handle, name);
}

void* entry_for_next(const void* next_address) noexcept {
  const auto* table = reinterpret_cast<void* const*>(&g_next);
  for (std::size_t i = 0; i < kEntryCount; ++i)
    if (table[i] == next_address) return gp_entries[i];
  return nullptr;
}

/// The decision of both stubs. Lookups of our own, from inside the library, are never answered.
extern "C" __attribute__((visibility("hidden"))) Answer gp_lookup(void* handle, const char* name,
                                                                  const char* version) noexcept {
  ensure_real_functions();
  if (name == nullptr || handle == RTLD_NEXT || t_inside || !looks_like_hip(name)) return kNotAnswered;
  InsideScope inside;
  // RTLD_DEFAULT would find our own export whether or not the runtime has the function: look behind us instead.
  void* const where = handle == RTLD_DEFAULT ? RTLD_NEXT : handle;
  void* const address = version == nullptr ? gp_real_dlsym(where, name) : gp_real_dlvsym(where, name, version);
  const EntryId id = find_entry(name);
  if (id == EntryId::kCount) {
    if (address != nullptr) note_unknown_lookup(name, address);
    return handle == RTLD_DEFAULT ? kNotAnswered : Answer{address, 1};
  }
  if (address == nullptr) return {nullptr, 1};
  return {adopt_next(id, address) ? gp_entries[static_cast<std::size_t>(id)] : address, 1};
}

}  // namespace graphpool
