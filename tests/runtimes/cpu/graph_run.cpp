#include "graph_run.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace cpuhip {
namespace {

/// Threads for branches. Never destroyed: they outlive main.
class Helpers {
 public:
  void submit(std::function<void()> task) {
    std::unique_lock lock(mutex_);
    tasks_.push_back(std::move(task));
    if (idle_ >= tasks_.size()) {
      work_.notify_one();
      return;
    }
    if (threads_ < kEager) {
      start_thread();
    } else if (!watching_) {
      watching_ = true;
      start_detached(&Helpers::watch, this);
    } else {
      stuck_.notify_one();
    }
  }
  std::size_t count() {
    std::lock_guard lock(mutex_);
    return threads_;
  }

 private:
  static constexpr std::size_t kEager = 4;  ///< as many as a GPU has queues for one process by default
  static constexpr auto kStuck = std::chrono::milliseconds(1);

  /// The program's signals are for the program's threads.
  static void start_detached(void (Helpers::*body)(), Helpers* self) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread(body, self).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void start_thread() {
    ++threads_;
    start_detached(&Helpers::help, this);
  }

  void help() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (tasks_.empty()) {
        ++idle_;
        work_.wait(lock, [this] { return !tasks_.empty(); });
        --idle_;
      }
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      ++taken_;
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
    }
  }

  /// Starts another helper whenever tasks wait and none was taken for a while: those running wait for one that is not.
  void watch() {
    std::unique_lock lock(mutex_);
    for (;;) {
      stuck_.wait(lock, [this] { return !tasks_.empty(); });
      const std::uint64_t taken = taken_;
      lock.unlock();
      std::this_thread::sleep_for(kStuck);
      lock.lock();
      if (!tasks_.empty() && taken_ == taken) start_thread();
    }
  }

  std::mutex mutex_;
  std::condition_variable work_, stuck_;
  std::deque<std::function<void()>> tasks_;
  std::size_t idle_ = 0, threads_ = 0;
  std::uint64_t taken_ = 0;
  bool watching_ = false;
};

Helpers& helpers() {
  static Helpers* const instance = new Helpers;
  return *instance;
}

/// One execution. Shared with the helpers: the last of them may still hold it when the caller returns.
struct Run : std::enable_shared_from_this<Run> {
  Run(const Dag& graph, const std::function<void(std::uint32_t)>& work)
      : dag(graph), body(work), pending(new std::atomic<std::uint32_t>[graph.size()]), left(graph.size()) {
    for (std::size_t i = 0; i < graph.size(); ++i) pending[i].store(graph.pending[i], std::memory_order_relaxed);
  }

  void start_elsewhere(std::uint32_t vertex) {
    helpers().submit([run = shared_from_this(), vertex] { run->follow(vertex); });
  }

  /// Runs a vertex and, one after another, whatever it makes ready; all but the first of these go to other threads.
  void follow(std::uint32_t vertex) {
    std::size_t ran = 0;
    for (bool more = true; more;) {
      body(vertex);
      ++ran;
      more = false;
      std::uint32_t next = 0;
      for (std::uint32_t i = dag.first[vertex]; i < dag.first[vertex + 1]; ++i) {
        const std::uint32_t dependent = dag.dependents[i];
        if (pending[dependent].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
        if (more) {
          start_elsewhere(dependent);
        } else {
          more = true;
          next = dependent;
        }
      }
      vertex = next;
    }
    std::lock_guard lock(mutex);
    left -= ran;
    if (left == 0) finished.notify_all();
  }

  const Dag& dag;
  const std::function<void(std::uint32_t)>& body;
  std::unique_ptr<std::atomic<std::uint32_t>[]> pending;
  std::mutex mutex;
  std::condition_variable finished;
  std::size_t left;
};

}  // namespace

Dag make_dag(std::size_t vertices, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges) {
  Dag dag;
  dag.pending.assign(vertices, 0);
  dag.first.assign(vertices + 1, 0);
  dag.dependents.resize(edges.size());
  dag.chain = edges.size() + 1 == vertices || vertices == 0;
  for (const auto& [from, to] : edges) {
    ++dag.pending[to];
    ++dag.first[from + 1];
    if (to != from + 1) dag.chain = false;
  }
  for (std::size_t i = 0; i < vertices; ++i) dag.first[i + 1] += dag.first[i];
  std::vector<std::uint32_t> next(dag.first.begin(), dag.first.end() - 1);
  for (const auto& [from, to] : edges) dag.dependents[next[from]++] = to;
  return dag;
}

void run_dag(const Dag& dag, const std::function<void(std::uint32_t)>& body) {
  if (dag.chain) {
    for (std::uint32_t i = 0; i < dag.size(); ++i) body(i);
    return;
  }
  auto run = std::make_shared<Run>(dag, body);
  // the vertices without dependencies, the first of them for this thread
  std::vector<std::uint32_t> ready;
  for (std::uint32_t i = 0; i < dag.size(); ++i) {
    if (dag.pending[i] == 0) ready.push_back(i);
  }
  for (std::size_t i = 1; i < ready.size(); ++i) run->start_elsewhere(ready[i]);
  run->follow(ready.front());
  std::unique_lock lock(run->mutex);
  run->finished.wait(lock, [&] { return run->left == 0; });
}

std::size_t helper_thread_count() { return helpers().count(); }

}  // namespace cpuhip
