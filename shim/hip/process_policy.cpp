#include "shim/hip/process_policy.h"

#include <pthread.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "policy/load.h"
#include "shim/base/fork_lock.h"
#include "shim/base/lock_rank.h"
#include "shim/base/log.h"
#include "shim/hip/elf_image.h"

namespace graphpool {
namespace {

/// Guards the reading of the policy. A child forked while another thread of its parent reads the policy has none.
constinit ForkLock g_policy_lock;
/// Set once, before any body runs; never destroyed. Read without the lock from then on.
const Policy* g_policy = nullptr;
const std::vector<Given>* g_given = nullptr;

/// Reads the policy the first time. Returns whether it can be used.
bool load_policy_once() noexcept REQUIRES(g_policy_lock) {
  static constinit bool loaded_before GUARDED_BY(g_policy_lock) = false;
  if (std::exchange(loaded_before, true)) return g_policy != nullptr;
  if (getauxval(AT_SECURE) != 0) return false;  // files would be read and written with more rights than the caller has
  if (another_copy_behind_us()) {
    log_warn("this library is preloaded twice, from two files: the first passes every call through");
    return false;
  }
  Loaded loaded = load(read_policy_file, environ);
  if (loaded.policy.has_value()) open_log(loaded.policy->log.level, loaded.policy->log.file);
  for (const std::string& warning : loaded.warnings) log_warn("%s", warning.c_str());
  if (!loaded.policy.has_value()) {
    for (const std::string& error : loaded.errors) log_error("%s", error.c_str());
    log_error("the policy cannot be used: every call of this process is passed through");
    return false;
  }
  if (!loaded.policy->enabled) return false;
  g_given = new (std::nothrow) std::vector<Given>(std::move(loaded.given));
  g_policy = new (std::nothrow) Policy(std::move(*loaded.policy));
  return g_policy != nullptr;
}

}  // namespace

const Policy& policy() noexcept { return *g_policy; }

const std::vector<Given>* policy_given() noexcept { return g_given; }

bool another_copy_behind_us() noexcept {
  bool behind_us = false;
  return for_each_image([&behind_us](const ElfImage& image) {
    if (image.contains(reinterpret_cast<const void*>(&another_copy_behind_us))) return behind_us = true, false;
    // No other library has functions of HIP, of a compiler and of the C library.
    return behind_us && image.find_export("hipGraphLaunch") != nullptr && image.find_export("prctl") != nullptr &&
           image.find_export("amd_comgr_do_action") != nullptr;
  });
}

const Policy* policy_of_process() noexcept {
  static constinit pthread_once_t watching_forks = PTHREAD_ONCE_INIT;
  pthread_once(&watching_forks, [] { pthread_atfork(nullptr, nullptr, [] { g_policy_lock.make_anew(); }); });
  const LogLater log_without_lock;
  const LockGuard guard(g_policy_lock);
  return load_policy_once() ? g_policy : nullptr;
}

}  // namespace graphpool
