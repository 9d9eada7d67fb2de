#include "shim/next.h"

#include <dlfcn.h>
#include <limits.h>

#include <array>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "shim/elf_image.h"
#include "shim/entry.h"
#include "shim/lock_rank.h"
#include "shim/lookup.h"

namespace graphpool {
namespace {

/// What a function that the runtime lacks answers: HIP's own "not supported", typed by the function's result.
template <typename Result, typename... Args>
struct Missing;

template <typename Result, typename... Args>
struct Missing<Result (*)(Args...)> {
  static Result call(Args...) noexcept {
    if constexpr (std::is_same_v<Result, hipError_t>) {
      return hipErrorNotSupported;
    } else if constexpr (std::is_same_v<Result, hiprtcResult>) {
      return HIPRTC_ERROR_INTERNAL_ERROR;
    } else if constexpr (!std::is_void_v<Result>) {
      return Result{};
    }
  }
};

hipError_t missing_forward() noexcept { return hipErrorNotSupported; }

/// The stand-ins again, to tell them from found functions.
const Next kMissing = {
#define HIP_HOOK(result, name, params, args, node, declared, effect) &Missing<result(*) params>::call,
#define HIP_NEXT(result, name, params, args, node, declared, effect) &Missing<result(*) params>::call,
#define HIP_FORWARD(name, node, effect) reinterpret_cast<void (*)()>(&missing_forward),
#include "hooks/hip_hooks.def"
};

constexpr std::array<const char*, kEntryCount> kNames = {
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD
#define HIP_HOOK(result, name, params, args, node, declared, effect) #name,
#define HIP_NEXT(result, name, params, args, node, declared, effect) #name,
#define HIP_FORWARD(name, node, effect) #name,
#include "hooks/hip_hooks.def"
};

struct Alias {
  std::string_view name;
  const char* exported;
};
constexpr Alias kAliases[] = {
#define HIP_ALIAS(name, exported) {#name, #exported},
#include "hooks/hip_aliases.def"
#undef HIP_ALIAS
};

constinit RankedMutex<LockRank::kLifecycle> g_resolve_lock;

void** slot(EntryId id) noexcept { return reinterpret_cast<void**>(&g_next) + static_cast<std::size_t>(id); }
void* missing(std::size_t index) noexcept { return reinterpret_cast<void* const*>(&kMissing)[index]; }

bool is_runtime_name(std::string_view basename) noexcept {
  return basename.starts_with("libamdhip64.so") || basename.starts_with("libhiprtc.so");
}

/// Handles of loaded HIP objects, whichever scope they are in. Never closed: a runtime is not unloaded under us.
struct Handles {
  std::array<void*, 4> at{};
  std::size_t count = 0;
};

Handles open_runtimes() noexcept {
  struct Paths {
    std::array<std::array<char, PATH_MAX>, 4> at{};
    std::size_t count = 0;
  };
  static Paths paths;  // too large for the stack of a thread we know nothing about; guarded by g_resolve_lock
  paths.count = 0;
  for_each_image([](const ElfImage& image) {
    const std::string_view path = image.path();
    if (is_runtime_name(image.basename()) && path.size() < PATH_MAX && paths.count < paths.at.size()) {
      auto& copy = paths.at[paths.count++];
      std::memcpy(copy.data(), path.data(), path.size());
      copy[path.size()] = '\0';
    }
    return false;
  });
  Handles handles;
  for (std::size_t i = 0; i < paths.count; ++i)
    if (void* handle = dlopen(paths.at[i].data(), RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL))
      handles.at[handles.count++] = handle;
  return handles;
}

void* find(const char* name, const Handles& handles) noexcept {
  if (void* address = real_dlsym(RTLD_NEXT, name)) return address;
  for (std::size_t i = 0; i < handles.count; ++i)
    if (void* address = real_dlsym(handles.at[i], name)) return address;
  return nullptr;
}

void* find_with_aliases(std::string_view name, const char* text, const Handles& handles) noexcept {
  if (void* address = find(text, handles)) return address;
  for (const Alias& alias : kAliases)
    if (alias.name == name)
      if (void* address = find(alias.exported, handles)) return address;
  return nullptr;
}

}  // namespace

std::uintptr_t g_runtime_begin = 0;
std::uintptr_t g_runtime_bytes = 0;

// Not constinit by the letter (pointers to functions), but without any code run for it.
Next g_next = {
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD
#define HIP_HOOK(result, name, params, args, node, declared, effect) &Missing<result(*) params>::call,
#define HIP_NEXT(result, name, params, args, node, declared, effect) &Missing<result(*) params>::call,
#define HIP_FORWARD(name, node, effect) reinterpret_cast<void (*)()>(&missing_forward),
#include "hooks/hip_hooks.def"
};

bool has(EntryId id) noexcept {
  return __atomic_load_n(slot(id), __ATOMIC_ACQUIRE) != missing(static_cast<std::size_t>(id));
}

void resolve_next() noexcept {
  InsideScope inside;
  // dl* under this lock is safe: the lock is taken at the first HIP call and in lookups only, never in a constructor
  // that the loader runs while it holds its own lock for us.
  g_resolve_lock.lock();
  const Handles handles = open_runtimes();
  for (std::size_t i = 0; i < kEntryCount; ++i) {
    const auto id = static_cast<EntryId>(i);
    if (has(id)) continue;
    if (void* address = find_with_aliases(kNames[i], kNames[i], handles))
      __atomic_store_n(slot(id), address, __ATOMIC_RELEASE);
  }
  const void* const version = *slot(EntryId::hipRuntimeGetVersion);
  for_each_image([version](const ElfImage& image) {
    if (!image.contains(version)) return false;
    g_runtime_begin = image.text_begin();
    g_runtime_bytes = image.text_bytes();
    return true;
  });
  g_resolve_lock.unlock();
}

bool adopt_next(EntryId id, void* address) noexcept {
  if (!has(id)) resolve_next();
  if (!has(id)) __atomic_store_n(slot(id), address, __ATOMIC_RELEASE);
  return __atomic_load_n(slot(id), __ATOMIC_ACQUIRE) == address;
}

bool runtime_owns_memory() noexcept {
  const auto malloc_at = reinterpret_cast<std::uintptr_t>(*slot(EntryId::hipMalloc));
  return g_runtime_bytes != 0 && malloc_at - g_runtime_begin < g_runtime_bytes;
}

}  // namespace graphpool
