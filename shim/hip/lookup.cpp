#include "shim/hip/lookup.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "shim/hip/compile_entries.h"
#include "shim/hip/coverage.h"
#include "shim/hip/early_lookup.h"
#include "shim/hip/elf_image.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/process_policy.h"

extern "C" {
/// Our exports; absent in unit tests of the engine.
__attribute__((visibility("hidden"), weak)) void* gp_dlsym(void* handle, const char* name);
__attribute__((visibility("hidden"), weak)) void* gp_dlvsym(void* handle, const char* name, const char* version);
}

namespace graphpool {
namespace {

constexpr std::array<std::string_view, kEntryCount> kNames = {
#define HIP_HOOK(result, name, params, args, node, declared, effect) #name,
#define HIP_NEXT(result, name, params, args, node, declared, effect) #name,
#define HIP_FORWARD(name, node, effect) #name,
#include "shim/hip/hip_hooks.def"
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
#include "shim/hip/hip_aliases.def"
#undef HIP_ALIAS
};

void* lookup(void* handle, const char* name, const char* version) noexcept {
  return version == nullptr ? g_libc_dlsym.load(std::memory_order_relaxed)(handle, name)
                            : g_libc_dlvsym.load(std::memory_order_relaxed)(handle, name, version);
}

Answer with_entry(EntryId id) noexcept {
  keep_runtime_loaded();
  return {gp_entries[static_cast<std::size_t>(id)], 1};
}

/// Answers with our entry, and clears dlerror() by a lookup that finds something: an earlier lookup of ours, which
/// found nothing, is no error of the program's.
Answer with_entry_after_error(EntryId id, const char* name) noexcept {
  const Answer answer = with_entry(id);
  static_cast<void>(lookup(RTLD_DEFAULT, name, nullptr));
  return answer;
}

/// Answers that the name is not found, and leaves an error for dlerror().
Answer not_found(const char* name) noexcept { return {lookup(RTLD_NEXT, name, nullptr), 1}; }

/// Whether an object before us in load order has this function, and whether the caller is in one.
struct BeforeUs {
  bool has_function = false, has_caller = false;
};
BeforeUs look_before_us(const char* name, const void* caller) noexcept {
  BeforeUs found;
  for_each_image([&](const ElfImage& image) {
    if (image.contains(reinterpret_cast<const void*>(&look_before_us))) return true;
    found.has_function = found.has_function || image.find_export(name) != nullptr;
    found.has_caller = found.has_caller || image.contains(caller);
    return false;
  });
  return found;
}

/// A lookup in the scope of an object. Our own export is found through the program's handle (dlopen(NULL)).
Answer look_up_in_object(EntryId id, void* handle, const char* name, const char* version) noexcept {
  void* const address = lookup(handle, name, version);
  if (address == nullptr) return kNotAnswered;
  if (address == gp_entries[static_cast<std::size_t>(id)])
    return lookup(RTLD_NEXT, name, nullptr) != nullptr ? with_entry(id) : not_found(name);
  return adopt_next(id, address) ? with_entry(id) : kNotAnswered;
}

/// RTLD_DEFAULT. A lookup with a version skips our exports, because they have none.
Answer look_up_in_default(EntryId id, const char* name, const char* version, const void* caller) noexcept {
  void* const address = lookup(RTLD_DEFAULT, name, version);
  if (version != nullptr) return address != nullptr && adopt_next(id, address) ? with_entry(id) : kNotAnswered;
  // Somebody before us has it, or takes the address of its own import; or the runtime is in the global scope.
  if (address != gp_entries[static_cast<std::size_t>(id)] || lookup(RTLD_NEXT, name, nullptr) != nullptr)
    return kNotAnswered;
  // The runtime is not in the global scope: only objects loaded later can have it in a scope of their own.
  resolve_next();
  return has(id) && !in_startup_object(caller) ? with_entry_after_error(id, name) : not_found(name);
}

bool is_lookup_function(std::string_view name) noexcept { return name == "dlsym" || name == "dlvsym"; }

/// Libraries that wrap dlsym look the next one up with the C library's version. That skips our export, which has no
/// version. A library before us must find ours all the same.
Answer look_up_dlsym(const char* name, const char* version, const void* caller) noexcept {
  if (lookup(RTLD_NEXT, name, version) == nullptr || !look_before_us(name, caller).has_caller) return kNotAnswered;
  return {std::string_view(name) == "dlsym" ? reinterpret_cast<void*>(&gp_dlsym) : reinterpret_cast<void*>(&gp_dlvsym),
          1};
}

/// RTLD_NEXT: only a caller before us can find our export.
Answer look_up_in_next(const char* name, const void* caller) noexcept {
  if (lookup(RTLD_NEXT, name, nullptr) != nullptr) return kNotAnswered;
  const BeforeUs before = look_before_us(name, caller);
  return before.has_caller && !before.has_function ? not_found(name) : kNotAnswered;
}

/// A lookup of a compile function outside of HIP. Ours answers where there is one behind it.
Answer look_up_compile_function(CompileEntry entry, void* handle, const char* name, const char* version,
                                const void* caller) noexcept {
  void* const ours = gp_compile_entries[static_cast<std::size_t>(entry)];
  if (handle == RTLD_NEXT || another_copy_behind_us()) return kNotAnswered;
  void* address = lookup(handle, name, version);
  if (address == nullptr) return kNotAnswered;
  if (address == ours) {
    if (lookup(RTLD_NEXT, name, version) != nullptr) return {ours, 1};
    // An object loaded later may have one in a scope of its own.
    if (handle != RTLD_DEFAULT || in_startup_object(caller) || next_compile_function(entry, caller) == nullptr)
      return not_found(name);
    static_cast<void>(lookup(handle, name, version));  // forgets the error of the one before
    return {ours, 1};
  }
  return adopt_compile_function(entry, address) ? Answer{ours, 1} : kNotAnswered;
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

void* entry_for_next(const void* next_address) noexcept {
  const auto* table = reinterpret_cast<void* const*>(&g_next);
  for (std::size_t i = 0; i < kEntryCount; ++i)
    if (table[i] == next_address) return gp_entries[i];
  return nullptr;
}

/// Lookups of our own, from inside the library, are never answered.
Answer answer_lookup(void* handle, const char* name, const char* version, const void* caller) noexcept {
  if (t_inside) return kNotAnswered;
  if (is_lookup_function(name))
    return handle == RTLD_NEXT && version != nullptr ? look_up_dlsym(name, version, caller) : kNotAnswered;
  const CompileEntry compile = find_compile_entry(name);
  const int saved_errno = errno;
  InsideScope inside;
  if (compile != CompileEntry::kCount) {
    const Answer found = look_up_compile_function(compile, handle, name, version, caller);
    errno = saved_errno;
    return found;
  }
  Answer answer = kNotAnswered;
  const EntryId id = find_entry(name);
  if (id == EntryId::kCount) {
    if (const void* address = lookup(handle == RTLD_DEFAULT ? RTLD_NEXT : handle, name, version))
      note_unknown_lookup(name, address);
  } else if (handle == RTLD_NEXT) {
    if (version == nullptr) answer = look_up_in_next(name, caller);
  } else if (handle == RTLD_DEFAULT) {
    answer = look_up_in_default(id, name, version, caller);
  } else {
    answer = look_up_in_object(id, handle, name, version);
  }
  errno = saved_errno;
  return answer;
}

}  // namespace graphpool
