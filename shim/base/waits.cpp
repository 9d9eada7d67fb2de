#include "shim/base/waits.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>

namespace graphpool {
namespace {

/// Holds what one thread waits for. A thread takes the place; the report shows it while it has a text.
struct Place {
  std::atomic<bool> taken{false};
  std::atomic<const char*> what{nullptr}, reason{nullptr};
  std::atomic<std::uint64_t> since_ms{0}, graph{0}, thread{0};
};
constinit std::array<Place, NotedWait::kMost> g_places{};

std::uint64_t now_ms() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

}  // namespace

NotedWait::NotedWait(const char* what, std::uint64_t graph) noexcept : traced_(TraceKind::kWait) {
  tell_trace(what, graph);
  for (place_ = 0; place_ < kMost; ++place_) {
    Place& place = g_places[place_];
    if (place.taken.exchange(true, std::memory_order_acquire)) continue;
    place.since_ms.store(now_ms(), std::memory_order_relaxed);
    place.graph.store(graph, std::memory_order_relaxed);
    place.thread.store(static_cast<std::uint64_t>(gettid()), std::memory_order_relaxed);
    place.reason.store(nullptr, std::memory_order_relaxed);
    place.what.store(what, std::memory_order_release);
    return;
  }
}

NotedWait::~NotedWait() {
  if (place_ == kMost) return;
  g_places[place_].what.store(nullptr, std::memory_order_relaxed);
  g_places[place_].taken.store(false, std::memory_order_release);
}

void NotedWait::because(const char* reason) noexcept {
  if (place_ != kMost) g_places[place_].reason.store(reason, std::memory_order_relaxed);
}

std::vector<WaitSeen> waits_now() {
  std::vector<WaitSeen> seen;
  for (const Place& place : g_places) {
    const char* const what = place.what.load(std::memory_order_acquire);
    if (what == nullptr) continue;
    const std::uint64_t since_ms = place.since_ms.load(std::memory_order_relaxed), now = now_ms();
    seen.push_back({what, place.reason.load(std::memory_order_relaxed), place.graph.load(std::memory_order_relaxed),
                    place.thread.load(std::memory_order_relaxed), now - std::min(now, since_ms)});
  }
  return seen;
}

}  // namespace graphpool
