#include "shim/hip/next.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>

#include "shim/base/lock_rank.h"
#include "shim/hip/early_lookup.h"
#include "shim/hip/elf_image.h"
#include "shim/hip/entry.h"
#include "shim/hip/lookup.h"

namespace graphpool {
namespace {

/// Answers for a function that the runtime lacks, by the type of its result: HIP's own "not supported", hipRTC's
/// internal error, else 0.
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
#include "shim/hip/hip_hooks.def"
};

/// Guards the finding of functions. A thread that held it when the process forked is not in the child.
constinit RankedMutex<LockRank::kLifecycle> g_resolve_lock;

void watch_forks() noexcept {
  static constinit pthread_once_t watching = PTHREAD_ONCE_INIT;
  pthread_once(&watching, [] {
    pthread_atfork(nullptr, nullptr, [] { new (&g_resolve_lock) RankedMutex<LockRank::kLifecycle>; });
  });
}

/// How many objects had been loaded when the library's constructor ran: these, we among them, are the global scope. 0:
/// it has not run yet, so all that is loaded is of the global scope.
constinit std::atomic<std::size_t> g_startup_objects{0};
constinit std::atomic<bool> g_runtime_is_startup_object{false};

__attribute__((constructor)) void count_startup_objects() noexcept {
  std::size_t count = 0;
  dl_iterate_phdr([](dl_phdr_info*, std::size_t, void* data) { return ++*static_cast<std::size_t*>(data), 0; }, &count);
  g_startup_objects.store(count, std::memory_order_relaxed);
}

bool is_startup_object(std::size_t index) noexcept {
  const std::size_t count = g_startup_objects.load(std::memory_order_relaxed);
  return count == 0 || index < count;
}

void** slot(EntryId id) noexcept { return reinterpret_cast<void**>(&g_next) + static_cast<std::size_t>(id); }
void* missing(std::size_t index) noexcept { return reinterpret_cast<void* const*>(&kMissing)[index]; }

bool is_runtime(const ElfImage& image) noexcept {
  return g_runtime_bytes.load(std::memory_order_relaxed) != 0 && image.text_begin() == g_runtime_begin;
}
bool is_runtime_name(std::string_view basename) noexcept { return basename.starts_with("libamdhip64.so"); }
bool is_compiler_name(std::string_view basename) noexcept { return basename.starts_with("libhiprtc.so"); }

void set_runtime(const ElfImage& image, bool startup_object) noexcept {
  g_runtime_is_startup_object.store(startup_object, std::memory_order_relaxed);
  g_runtime_begin.store(image.text_begin(), std::memory_order_relaxed);
  g_runtime_bytes.store(image.text_bytes(), std::memory_order_relaxed);
}

/// Finds the first object with the name of a runtime; else the first one behind us in the global scope that exports
/// hipRuntimeGetVersion.
void find_runtime() noexcept {
  const auto find = [](auto&& matches) {
    std::size_t index = 0;
    return for_each_image([&](const ElfImage& image) {
      if (!matches(image, is_startup_object(index))) return ++index, false;
      set_runtime(image, is_startup_object(index));
      return true;
    });
  };
  bool behind_us = false;
  if (find([](const ElfImage& image, bool) { return is_runtime_name(image.basename()); })) return;
  find([&behind_us](const ElfImage& image, bool startup_object) {
    if (image.contains(reinterpret_cast<const void*>(&find_runtime))) return behind_us = true, false;
    return behind_us && startup_object && image.find_export("hipRuntimeGetVersion") != nullptr;
  });
}

/// Takes, in load order, the functions behind us in the global scope, and those of the runtime and of the first hipRTC,
/// whichever scope they are in. Never those of a second runtime that the program opened for itself. A function under
/// another name counts only where none has the proper one: it may be a jump to that.
enum class Names { kProper, kAliases };
void fill_table(Names names) noexcept {
  bool behind_us = false, have_compiler = false;
  std::size_t index = 0;
  for_each_image([&](const ElfImage& image) {
    const bool global = is_startup_object(index++) && behind_us;
    if (image.contains(reinterpret_cast<const void*>(static_cast<void (*)(Names)>(&fill_table)))) {
      behind_us = true;
      return false;
    }
    const bool compiler = is_compiler_name(image.basename()) && !have_compiler;
    if (!global && !compiler && !is_runtime(image)) return false;
    have_compiler = have_compiler || compiler;
    image.for_each_function([names](std::string_view name, void* address) {
      const EntryId id = may_be_entry(name.data()) ? find_entry(name) : EntryId::kCount;
      if (id == EntryId::kCount || has(id) || (entry_name(id) == name) != (names == Names::kProper)) return;
      __atomic_store_n(slot(id), address, __ATOMIC_RELEASE);
    });
    return false;
  });
}

void fill_table() noexcept {
  fill_table(Names::kProper);
  fill_table(Names::kAliases);
}

}  // namespace

constinit std::atomic<std::uintptr_t> g_runtime_begin{0};
constinit std::atomic<std::uintptr_t> g_runtime_bytes{0};

// Not constinit by the letter (pointers to functions), but without any code run for it.
Next g_next = {
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD
#define HIP_HOOK(result, name, params, args, node, declared, effect) &Missing<result(*) params>::call,
#define HIP_NEXT(result, name, params, args, node, declared, effect) &Missing<result(*) params>::call,
#define HIP_FORWARD(name, node, effect) reinterpret_cast<void (*)()>(&missing_forward),
#include "shim/hip/hip_hooks.def"
};

bool has(EntryId id) noexcept {
  return __atomic_load_n(slot(id), __ATOMIC_ACQUIRE) != missing(static_cast<std::size_t>(id));
}

void resolve_next() noexcept {
  static constinit std::uint64_t resolved_epoch GUARDED_BY(g_resolve_lock) = 0;
  watch_forks();
  const std::uint64_t epoch = loaded_objects_epoch();
  const LockGuard guard(g_resolve_lock);
  if (epoch == resolved_epoch) return;
  if (g_runtime_bytes.load(std::memory_order_relaxed) == 0) find_runtime();
  fill_table();
  resolved_epoch = epoch;  // now: a child forked before has to look itself
}

bool adopt_next(EntryId id, void* address) noexcept {
  if (!has(id)) resolve_next();
  if (!has(id) && g_runtime_bytes.load(std::memory_order_relaxed) == 0) {
    // A runtime under a name we do not know, opened by the program: it is the object that the lookup led to.
    const LockGuard guard(g_resolve_lock);
    if (g_runtime_bytes.load(std::memory_order_relaxed) == 0)  // another thread may have found one by now
      for_each_image([address](const ElfImage& image) {
        if (!image.contains(address)) return false;
        set_runtime(image, false);
        return true;
      });
    fill_table();
  }
  return has(id) && __atomic_load_n(slot(id), __ATOMIC_ACQUIRE) == address;
}

void keep_runtime_loaded() noexcept {
  static constinit std::atomic<bool> done{false};
  if (g_runtime_bytes.load(std::memory_order_relaxed) == 0 ||
      g_runtime_is_startup_object.load(std::memory_order_relaxed) || done.exchange(true))
    return;
  char path[PATH_MAX] = "";
  for_each_image([&path](const ElfImage& image) {
    if (!is_runtime(image)) return false;
    if (image.path().size() < sizeof path) std::memcpy(path, image.path().data(), image.path().size());
    return true;
  });
  // The handle is given up on purpose: it is the reference.
  if (path[0] != '\0') static_cast<void>(dlopen(path, RTLD_NOLOAD | RTLD_NODELETE | RTLD_LAZY));
}

bool in_startup_object(const void* address) noexcept {
  std::size_t index = 0;
  bool found = false;
  for_each_image([&](const ElfImage& image) {
    found = image.contains(address);
    return found || (++index, false);
  });
  return found && is_startup_object(index);
}

bool runtime_owns_memory() noexcept { return in_runtime(*slot(EntryId::hipMalloc)); }

}  // namespace graphpool
