#include "shim/execs/user_objects.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <list>
#include <new>
#include <utility>

#include "shim/base/log.h"
#include "shim/base/short_lock.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"

namespace graphpool {
namespace {

struct Waiting {
  Objects objects;
  Launches launches;

  bool complete() noexcept {
    std::erase_if(launches, [](const auto& marks) { return marks->complete(); });
    return launches.empty();
  }
};

/// Objects whose launches may still run. Never destroyed.
class WaitingObjects {
 public:
  /// Throws std::bad_alloc; then `one` is as it was.
  void add(Waiting&& one) {
    std::list<Waiting> added;
    added.push_back(std::move(one));
    bool first = false;
    {
      const LockGuard guard(lock_);
      waiting_.splice(waiting_.end(), added);
      g_objects_waiting.fetch_add(1, std::memory_order_release);
      first = !std::exchange(watched_, true);
    }
    if (first) watch();
  }

  /// Takes no memory: what is looked at must come back to the list if it runs.
  void let_go_of_completed() noexcept {
    std::list<Waiting> mine, done;
    {
      const LockGuard guard(lock_);
      mine.swap(waiting_);
    }
    for (auto next = mine.begin(); next != mine.end();) {
      const auto one = next++;
      if (one->complete()) done.splice(done.end(), mine, one);
    }
    const LockGuard guard(lock_);
    waiting_.splice(waiting_.end(), mine);
    g_objects_waiting.fetch_sub(done.size(), std::memory_order_release);
  }

 private:
  /// Starts a thread that looks for completed launches: a program may wait for a destructor without a call of HIP.
  void watch() noexcept {
    static constinit pthread_once_t ends = PTHREAD_ONCE_INIT;
    pthread_once(&ends, [] { std::atexit(stop); });
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread{};
    const bool made = pthread_create(&thread, nullptr, look, this) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (made) {
      pthread_detach(thread);
    } else {
      log_warn("no thread to look for the end of launches: user objects of their graphs end with a later call");
      const LockGuard guard(lock_);
      watched_ = false;
    }
  }

  static void* look(void* self) noexcept {
    const InsideScope inside;
    constexpr long kFirst = 100'000, kLongest = 4'000'000;  // ns
    for (timespec pause{0, kFirst};; pause.tv_nsec = std::min(2 * pause.tv_nsec, kLongest)) {
      nanosleep(&pause, nullptr);
      pthread_mutex_lock(&g_looking);
      const bool more = !g_ended && g_mode.load(std::memory_order_acquire) != Mode::kPassThrough &&
                        static_cast<WaitingObjects*>(self)->look_again();
      pthread_mutex_unlock(&g_looking);
      if (!more) return nullptr;
    }
  }

  bool look_again() noexcept {
    let_go_of_completed();
    const LockGuard guard(lock_);
    return watched_ = g_objects_waiting.load(std::memory_order_acquire) != 0;
  }

  /// Ends the looks when the process ends: the runtime may be gone soon.
  static void stop() noexcept {
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    ++until.tv_sec;  // the program's destructors may wait for this thread
    const bool locked = pthread_mutex_timedlock(&g_looking, &until) == 0;
    g_ended = true;
    if (locked) pthread_mutex_unlock(&g_looking);
  }

  static constinit pthread_mutex_t g_looking;
  static constinit bool g_ended;

  ShortLock<LockRank::kReport> lock_;
  std::list<Waiting> waiting_ GUARDED_BY(lock_);
  bool watched_ GUARDED_BY(lock_) = false;  ///< a thread looks, or is about to
};

constinit pthread_mutex_t WaitingObjects::g_looking = PTHREAD_MUTEX_INITIALIZER;
constinit bool WaitingObjects::g_ended = false;

WaitingObjects& waiting_objects() {
  static auto* const instance = new WaitingObjects;
  return *instance;
}

}  // namespace

constinit std::atomic<std::size_t> g_objects_waiting{0};

void ObjectHolder::hide() noexcept { static_cast<void>(made_private(hipSuccess, &graph_)); }

ObjectHolder::~ObjectHolder() {
  const LastErrorScope last_error;
  const hipGraph_t graph = no_longer_private(graph_);
  const CallbackScope callbacks;
  if (next().hipGraphDestroy(graph) != hipSuccess) static_cast<void>(next().hipGraphDestroy(graph));
}

void let_go_of_objects(Objects objects) noexcept {
  if (objects.use_count() > 1) objects->hide();
}

void let_go_of_objects(Objects objects, Launches launches) noexcept {
  Waiting one{std::move(objects), std::move(launches)};
  std::erase_if(one.launches, [](const auto& marks) { return marks == nullptr; });
  if (one.complete()) return;
  try {
    waiting_objects().add(std::move(one));
  } catch (const std::bad_alloc&) {
    // No memory to wait with. What a running launch needs must stay: it stays as long as the process.
    alignas(Objects) std::byte never_destroyed[sizeof(Objects)];
    static_cast<void>(new (never_destroyed) Objects(std::move(one.objects)));
  }
}

void let_go_of_completed() noexcept {
  if (g_objects_waiting.load(std::memory_order_acquire) != 0) waiting_objects().let_go_of_completed();
}

}  // namespace graphpool
