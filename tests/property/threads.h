// threads.h: the program's threads. One at a time has its turn, so a program does the same in every run.
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "step.h"

namespace property {

/// Thread 0 is the caller; the others live until they are ended, and start again with their next turn.
class Threads {
 public:
  Threads() = default;
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() {
    for (int i = 1; i < kThreads; ++i) end(i);
  }

  /// Runs the body on the thread and returns when it is done.
  void run(int number, const std::function<void()>& body) {
    if (number == 0) return body();
    Worker& worker = workers_[static_cast<std::size_t>(number)];
    std::unique_lock lock(worker.mutex);
    worker.body = &body;
    if (!worker.thread.joinable()) worker.thread = std::thread([&worker] { work(worker); });
    worker.changed.notify_all();
    worker.changed.wait(lock, [&worker] { return worker.body == nullptr; });
  }

  void end(int number) {
    Worker& worker = workers_[static_cast<std::size_t>(number)];
    if (!worker.thread.joinable()) return;
    {
      const std::lock_guard lock(worker.mutex);
      worker.ending = true;
      worker.changed.notify_all();
    }
    worker.thread.join();
    worker.ending = false;
  }

 private:
  struct Worker {
    std::mutex mutex;
    std::condition_variable changed;
    const std::function<void()>* body = nullptr;
    bool ending = false;
    std::thread thread;
  };

  static void work(Worker& worker) {
    std::unique_lock lock(worker.mutex);
    for (;;) {
      worker.changed.wait(lock, [&worker] { return worker.body != nullptr || worker.ending; });
      if (worker.body == nullptr) return;
      (*worker.body)();
      worker.body = nullptr;
      worker.changed.notify_all();
    }
  }

  std::array<Worker, kThreads> workers_;
};

}  // namespace property
