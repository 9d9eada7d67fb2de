// pool.cpp LIBRARY WORD...: threads that compile, by the names that pools of compilers give them or by calls of a
// library's functions (fake_compiler.cpp). Its words are done in order:
//   meet COUNT              what uses processor time does so until so many have done at once
//   threads COUNT NAME MS   so many threads name themselves and use that much processor time, beginning once all are
//                           about to name themselves; waits for them
//   handshake COUNT NAME    so many threads name themselves and wait for each other
//   prctl COUNT NAME MS     as threads, but named by prctl
//   unnamed COUNT MS        as threads, without a name
//   pool HOW COUNT NAME MS TASKS  a pool of so many named threads; once all are there it does so many tasks that each
//   use
//                           that much processor time, then ends. Its threads wait for work at a condition, with a time
//                           (timed), a semaphore, or one that waits by itself (futex); HOW others: at a condition, and
//                           they are named by the first thread; HOW file: they name themselves by a file of /proc
//   after FILE              the tasks of the pools that follow begin once it is there
//   stop COUNT NAME         ends a pool while another thread compiles, which goes on until the pool has ended
//   serve COUNT NAME        a compilation waits for tasks that it gives to a pool
//   exit COUNT NAME         each ends by pthread_exit, or is cancelled
//   call COUNT FUNCTION DO  so many threads compile by that function, which meanwhile does: burn (uses processor time),
//   pool
//                           (has named threads do that, and waits for them), nested (compiles), throw (an exception)
//   fork FUNCTION           compiles in a forked child, and in one forked while a compilation runs
//   child CODE              a forked child ends by exit, and has compiled nothing itself
//   signal FUNCTION         two threads compile, and a handler that interrupts each of them does
//   atexit FUNCTION         compiles in a function that runs at the end
//   cancelled FUNCTION      compiles in a thread that is to be cancelled, and then is
// At the end it prints how many ran at once at most: threads that use processor time, by their own count.
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<int> running{0}, most{0};
int expected = 0;
bool is_child = false;

long now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

void work(long ms) {
  const int now = ++running;
  for (int before = most; now > before && !most.compare_exchange_weak(before, now);) {
  }
  for (const long end = now_ms() + ms; now_ms() < end || most < expected;) {
  }
  --running;
}

enum class By { kPthread, kPrctl, kNobody };

void threads(int count, const std::string& name, By by, long ms) {
  std::vector<std::thread> all;
  std::atomic<int> begun{0};
  for (int i = 0; i < count; ++i)
    all.emplace_back([=, &begun] {
      const std::string own = name + std::to_string(i);
      ++begun;
      if (by == By::kPthread) pthread_setname_np(pthread_self(), own.c_str());
      if (by == By::kPrctl) prctl(PR_SET_NAME, own.c_str(), 0, 0, 0);
      char seen[16] = "";
      pthread_getname_np(pthread_self(), seen, sizeof seen);
      if (by != By::kNobody && own.substr(0, sizeof seen - 1) != seen) std::_Exit(3);
      while (by != By::kNobody && begun != count) std::this_thread::yield();
      work(ms);
    });
  for (std::thread& thread : all) thread.join();
}

void handshake(int count, const std::string& name) {
  std::mutex mutex;
  std::condition_variable changed;
  int there = 0;
  std::vector<std::thread> all;
  for (int i = 0; i < count; ++i)
    all.emplace_back([&] {
      pthread_setname_np(pthread_self(), name.c_str());
      std::unique_lock lock(mutex);
      ++there;
      changed.notify_all();
      changed.wait(lock, [&] { return there == count; });
    });
  for (std::thread& thread : all) thread.join();
}

void name_by_file(const std::string& name) {
  std::FILE* const file = std::fopen("/proc/thread-self/comm", "w");
  if (file == nullptr || std::fputs(name.c_str(), file) < 0 || std::fclose(file) != 0) std::_Exit(3);
}

/// Threads that stay, and do what is put into a queue.
class Pool {
 public:
  Pool(const std::string& how, int count, const std::string& name) : how_(how) {
    sem_init(&posted_, 0, 0);
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, name] {
        if (how_ == "file") {
          name_by_file(name);
        } else if (how_ != "others") {
          pthread_setname_np(pthread_self(), name.c_str());
        }
        run();
      });
      if (how_ == "others") pthread_setname_np(threads_.back().native_handle(), name.c_str());
    }
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return there_ == count; });
  }
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    for (std::size_t i = 0; i < threads_.size(); ++i) post();
    for (std::thread& thread : threads_) thread.join();
    sem_destroy(&posted_);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void do_tasks(int number, long ms) {
    std::unique_lock lock(mutex_);
    ms_ = ms;
    open_ = left_ = number;
    for (int i = 0; i < number; ++i) {
      changed_.notify_one();
      post();
    }
    done_.wait(lock, [&] { return open_ == 0; });
  }

 private:
  void post() {
    sem_post(&posted_);
    released_.release();
  }
  void wait(std::unique_lock<std::mutex>& lock) {
    const auto wanted = [this] { return ends_ || left_ > 0; };
    if (how_ == "semaphore") {
      lock.unlock();
      sem_wait(&posted_);
      lock.lock();
    } else if (how_ == "futex") {
      lock.unlock();
      released_.acquire();
      lock.lock();
    } else if (how_ == "timed") {
      changed_.wait_for(lock, std::chrono::hours(1), wanted);
    } else {
      changed_.wait(lock, wanted);
    }
  }
  void run() {
    std::unique_lock lock(mutex_);
    ++there_;
    done_.notify_all();
    for (;;) {
      wait(lock);
      if (ends_) return;
      if (left_ == 0) continue;
      --left_;
      lock.unlock();
      work(ms_);
      lock.lock();
      if (--open_ == 0) done_.notify_all();
    }
  }

  const std::string how_;
  std::mutex mutex_;
  std::condition_variable changed_, done_;
  sem_t posted_;
  std::counting_semaphore<> released_{0};
  int there_ = 0, left_ = 0, open_ = 0;
  long ms_ = 0;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

void ends(int count, const std::string& name) {
  static std::string thread_name;
  thread_name = name;
  for (int i = 0; i < count; ++i) {
    pthread_t thread;
    const bool cancelled = i % 2 == 1;
    pthread_create(
        &thread, nullptr,
        [](void* waits) -> void* {
          pthread_setname_np(pthread_self(), thread_name.c_str());
          if (waits == nullptr) pthread_exit(nullptr);
          for (;;) pause();
        },
        cancelled ? &thread : nullptr);
    if (cancelled) pthread_cancel(thread);
    void* result = nullptr;
    pthread_join(thread, &result);
    if (cancelled && result != PTHREAD_CANCELED) std::_Exit(4);
  }
}

// --- Compilations by calls ---

void* library = nullptr;
const char* function = "";
void* looked_up = nullptr;  // where it must not be looked up at each call

void compile(void (*what)()) {
  void* const found = looked_up != nullptr ? looked_up : dlsym(library, function);
  const auto argument = reinterpret_cast<std::uintptr_t>(what);
  constexpr int kCompileToRelocatable = 7;
  if (std::strcmp(function, "LLVMRunPasses") == 0) {
    reinterpret_cast<void* (*)(void*, const char*, void*, void*)>(found)(reinterpret_cast<void*>(what), "", nullptr,
                                                                         nullptr);
  } else if (std::strcmp(function, "amd_comgr_do_action") == 0) {
    reinterpret_cast<int (*)(int, std::uint64_t, std::uint64_t, std::uint64_t)>(found)(kCompileToRelocatable, argument,
                                                                                       0, 0);
  } else if (std::strcmp(function, "hiprtcCompileProgram") == 0) {
    reinterpret_cast<int (*)(void*, int, const char* const*)>(found)(reinterpret_cast<void*>(what), 0, nullptr);
  } else {
    reinterpret_cast<bool (*)(void*)>(found)(reinterpret_cast<void*>(what));
  }
}

std::atomic<int> handled{0}, started{0};
void burn() { work(200); }
void nested() { compile(burn); }
void fail() { throw 1; }
void pool() { threads(3, "llvm-worker-", By::kPthread, 50); }

std::atomic<bool> compiles{false}, pool_ended{false};
Pool* pool_of_call = nullptr;

void stop(int count, const std::string& name) {
  auto* const pool = new Pool("condition", count, name);
  std::thread compiler([] {
    compile([] {
      compiles = true;
      for (const long end = now_ms() + 60'000; !pool_ended;)
        if (now_ms() > end) std::_Exit(9);
    });
  });
  while (!compiles) std::this_thread::yield();
  delete pool;
  pool_ended = true;
  compiler.join();
}

void serve(int count, const std::string& name) {
  Pool pool("condition", count, name);
  pool_of_call = &pool;
  compile([] { pool_of_call->do_tasks(8, 50); });
}

void call(int count, const std::string& what) {
  std::vector<std::thread> all;
  for (int i = 0; i < count; ++i)
    all.emplace_back([what] {
      try {
        compile(what == "pool" ? pool : what == "nested" ? nested : what == "throw" ? fail : burn);
      } catch (int) {
      }
    });
  for (std::thread& thread : all) thread.join();
}

void wait_for_child(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) std::_Exit(5);
}

void compile_in_child() {
  const pid_t child = fork();
  if (child == 0) {
    compile(burn);
    _exit(0);
  }
  wait_for_child(child);
}

/// The child leaves by return through a compilation that is its parent's.
void fork_inside() {
  const pid_t child = fork();
  if (child != 0) return wait_for_child(child);
  is_child = true;
}

void forks() {
  compile(burn);
  compile_in_child();
  compile(fork_inside);
  if (is_child) {
    compile(burn);
    _exit(0);
  }
  compile(burn);
}

/// One of the two waits for its permit when it is interrupted.
void interrupted() {
  looked_up = dlsym(library, function);
  signal(SIGUSR1, [](int) { compile([] { ++handled; }); });
  pthread_t threads[2];
  for (pthread_t& thread : threads)
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          ++started;
          compile([] {
            const long end = now_ms() + 60'000;
            while (handled < 2)
              if (now_ms() > end) std::_Exit(10);
          });
          return nullptr;
        },
        nullptr);
  while (started != 2) std::this_thread::yield();
  usleep(200'000);
  for (const pthread_t thread : threads) pthread_kill(thread, SIGUSR1);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
}

/// Nothing before the function that the compilation calls is where it is cancelled.
void cancelled() {
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void*) -> void* {
        pthread_cancel(pthread_self());
        compile([] { ++running; });
        if (running != 1) std::_Exit(6);
        compile([] {
          --running;
          pthread_testcancel();
        });
        std::_Exit(8);
      },
      nullptr);
  void* result = nullptr;
  pthread_join(thread, &result);
  if (result != PTHREAD_CANCELED || running != 0) std::_Exit(7);
}

}  // namespace

int main(int count, char** words) {
  std::string after;
  if (count < 2 || (library = dlopen(words[1], RTLD_NOW)) == nullptr) return 2;
  for (int i = 2; i < count; ++i) {
    const std::string word = words[i];
    const int number = std::atoi(words[i + 1]);
    if (word == "meet") {
      expected = std::atoi(words[++i]);
    } else if (word == "threads" || word == "prctl") {
      threads(number, words[i + 2], word == "prctl" ? By::kPrctl : By::kPthread, std::atol(words[i + 3]));
      i += 3;
    } else if (word == "unnamed") {
      threads(number, "", By::kNobody, std::atol(words[i + 2]));
      i += 2;
    } else if (word == "handshake") {
      handshake(number, words[i + 2]);
      i += 2;
    } else if (word == "after") {
      after = words[++i];
    } else if (word == "pool") {
      Pool pool(words[i + 1], std::atoi(words[i + 2]), words[i + 3]);
      while (!after.empty() && access(after.c_str(), F_OK) != 0) usleep(10'000);
      pool.do_tasks(std::atoi(words[i + 5]), std::atol(words[i + 4]));
      i += 5;
    } else if (word == "stop" || word == "serve") {
      function = "LLVMRunPasses";
      word == "stop" ? stop(number, words[i + 2]) : serve(number, words[i + 2]);
      i += 2;
    } else if (word == "exit") {
      ends(number, words[i + 2]);
      i += 2;
    } else if (word == "call") {
      function = words[i + 2];
      call(number, words[i + 3]);
      i += 3;
    } else if (word == "fork" || word == "cancelled" || word == "signal") {
      function = words[++i];
      word == "fork" ? forks() : word == "signal" ? interrupted() : cancelled();
    } else if (word == "child") {
      const pid_t child = fork();
      if (child == 0) std::exit(number);
      int status = 0;
      if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != number) std::_Exit(9);
      ++i;
    } else if (word == "atexit") {
      function = words[++i];
      std::atexit([] { compile(nested); });
    } else {
      return 2;
    }
  }
  std::printf("%d\n", most.load());
  return 0;
}
