#include "shim/base/trace.h"

#include <cpuid.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "shim/base/event_log.h"
#include "shim/base/owned_count.h"
#include "shim/base/small_file.h"

namespace graphpool {
namespace {

constexpr std::size_t kWords = 6;
constexpr std::size_t kSlots = kTraceRing + 1;  // one may be half written while a reader looks
using Slot = std::array<std::atomic<std::uint64_t>, kWords>;

/// One thread writes. Event i is in slot i % kSlots once `written` is above i, until `written` is i + kSlots.
struct Ring {
  std::atomic<const void*> owner;     ///< the thread's token
  std::atomic<std::uint32_t> thread;  ///< its id
  std::atomic<std::uint64_t> written;
  std::array<Slot, kSlots> slots;
};

// Rings are made once and never given back.
constinit std::array<std::atomic<Ring*>, kMostTraceRings> g_rings{};
constinit std::atomic<std::uint64_t> g_without_ring{0};  ///< events of threads that have none
constinit std::atomic<std::uint64_t> g_kept_noted{0};    ///< ticks of the last kKept

// Set before g_trace_uses.
constinit std::atomic<bool> g_by_clock{false};  ///< the processor's clock cannot be used: the kernel's is
constinit std::uint64_t g_first_ticks = 0, g_first_ns = 0;

constinit thread_local Ring* t_ring __attribute__((tls_model("initial-exec"))) = nullptr;
constinit thread_local bool t_no_ring __attribute__((tls_model("initial-exec"))) = false;
constinit thread_local TraceSpan* t_span __attribute__((tls_model("initial-exec"))) = nullptr;

std::uint64_t clock_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

/// Whether the processor's clock runs evenly, and alike on all processors: the processor says so, or the kernel uses
/// it.
bool processor_clock_is_even() noexcept {
  constexpr unsigned kPowerManagement = 0x80000007, kInvariant = 1u << 8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(kPowerManagement, &a, &b, &c, &d) != 0 && (d & kInvariant) != 0) return true;
  std::array<char, 16> name{};
  const ssize_t length =
      read_small_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", name.data(), name.size() - 1);
  return length >= 3 && std::memcmp(name.data(), "tsc", 3) == 0;
}

/// Takes over the ring of an ended thread that had the caller's token. Returns null if no thread has left one.
Ring* take_over(const void* token) noexcept {
  for (const auto& place : g_rings) {
    Ring* const ring = place.load(std::memory_order_acquire);
    if (ring == nullptr) return nullptr;
    if (ring->owner.load(std::memory_order_relaxed) == token) return ring;
  }
  return nullptr;
}

/// Makes a ring for the calling thread. Null: there is no memory for it, or no place left.
Ring* make_ring() noexcept {
  const int saved_errno = errno;
  void* const memory =
      mmap(nullptr, sizeof(Ring), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  errno = saved_errno;
  if (memory == MAP_FAILED) return nullptr;
  auto* const ring = static_cast<Ring*>(memory);  // all its words are 0
  ring->owner.store(&t_thread_token, std::memory_order_relaxed);
  for (auto& place : g_rings) {
    Ring* nobody = nullptr;
    if (place.compare_exchange_strong(nobody, ring, std::memory_order_acq_rel)) return ring;
  }
  munmap(memory, sizeof(Ring));
  return nullptr;
}

/// The calling thread's ring; null: it gets none.
[[gnu::cold, gnu::noinline]] Ring* ring_of_thread() noexcept {
  if (t_no_ring) return nullptr;
  Ring* ring = take_over(&t_thread_token);
  if (ring == nullptr) ring = make_ring();
  if (ring != nullptr) ring->thread.store(static_cast<std::uint32_t>(gettid()), std::memory_order_relaxed);
  t_no_ring = ring == nullptr;
  return t_ring = ring;
}

// A reader that sees a word of event i sees `written` at i or above: the words are stored after that.
void put(Ring& ring, const TraceEvent& event) noexcept {
  const std::uint64_t which = ring.written.load(std::memory_order_relaxed);
  Slot& slot = ring.slots[which % kSlots];
  const std::array<std::uint64_t, kWords> words = {
      event.begin,
      event.end,
      reinterpret_cast<std::uint64_t>(event.detail),
      event.graph,
      event.value,
      static_cast<std::uint64_t>(event.kind) << 32 | ring.thread.load(std::memory_order_relaxed)};
  for (std::size_t i = 0; i < kWords; ++i) slot[i].store(words[i], std::memory_order_release);
  ring.written.store(which + 1, std::memory_order_release);
}

/// Adds the ring's events to `seen`, in ticks.
void read(const Ring& ring, TraceSeen* seen) {
  const std::uint64_t written = ring.written.load(std::memory_order_acquire);
  const std::uint64_t first = written - std::min<std::uint64_t>(written, kTraceRing);
  const std::size_t before = seen->events.size();
  for (std::uint64_t i = first; i < written; ++i) {
    std::array<std::uint64_t, kWords> words;
    for (std::size_t word = 0; word < kWords; ++word)
      words[word] = ring.slots[i % kSlots][word].load(std::memory_order_acquire);
    seen->events.push_back({static_cast<TraceKind>(words[5] >> 32), static_cast<std::uint32_t>(words[5]), words[0],
                            words[1], reinterpret_cast<const char*>(words[2]), words[3], words[4]});
  }
  // The thread may have overwritten events while they were read, and may be overwriting one now. These are the oldest:
  // they are dropped.
  const std::uint64_t now = ring.written.load(std::memory_order_acquire);
  const std::uint64_t sound = std::min(now - std::min<std::uint64_t>(now, kTraceRing), written);
  const auto begin = seen->events.begin() + static_cast<std::ptrdiff_t>(before);
  seen->events.erase(begin, begin + static_cast<std::ptrdiff_t>(sound - first));
  seen->lost += sound;
}

}  // namespace

void begin_trace(TraceUse use) noexcept {
  if (!trace_on()) {
    g_by_clock.store(!processor_clock_is_even(), std::memory_order_relaxed);
    g_first_ns = clock_ns();
    g_first_ticks = trace_ticks();
    pthread_atfork(nullptr, nullptr, end_trace);
  }
  g_trace_uses.fetch_or(static_cast<std::uint8_t>(use), std::memory_order_release);
}

void end_trace() noexcept { g_trace_uses.store(0, std::memory_order_release); }

std::uint64_t trace_ticks() noexcept {
  if (g_by_clock.load(std::memory_order_relaxed)) [[unlikely]]
    return clock_ns();
  return __builtin_ia32_rdtsc() | 1;
}

void trace(TraceEvent event) noexcept {
  if (trace_on(TraceUse::kLog)) [[unlikely]] {
    log_event(event);
    if (!trace_on(TraceUse::kFile)) return;
  }
  Ring* const ring = t_ring != nullptr ? t_ring : ring_of_thread();
  if (ring != nullptr) [[likely]]
    put(*ring, event);
  else
    g_without_ring.fetch_add(1, std::memory_order_relaxed);
}

void trace_kept(int device, std::uint64_t bytes) noexcept {
  if (!trace_on(TraceUse::kFile)) return;
  constexpr std::uint64_t kTicksBetween = 2'000'000;  // of processors at 2 to 4 GHz half a millisecond to a whole one
  const std::uint64_t now = trace_ticks();
  std::uint64_t last = g_kept_noted.load(std::memory_order_relaxed);
  if (last != 0 && now - last < kTicksBetween) return;
  if (g_kept_noted.compare_exchange_strong(last, now, std::memory_order_relaxed))
    trace({TraceKind::kKept, 0, now, now, nullptr, static_cast<std::uint64_t>(device), bytes});
}

void TraceSpan::begin(TraceKind kind, std::uint64_t began) noexcept {
  began_ = began;
  kind_ = kind;
  detail_ = nullptr;
  graph_ = value_ = 0;
  outer_ = t_span;
  t_span = this;
}

void TraceSpan::end() noexcept {
  const std::uint64_t now = trace_ticks();
  t_span = outer_;
  if (dropped_) return;
  trace({kind_, 0, began_, now, detail_, graph_, value_});
}

void tell_span(const char* detail, std::uint64_t graph, std::uint64_t value) noexcept {
  if (t_span == nullptr) return;
  if (detail != nullptr) t_span->detail_ = detail;
  if (graph != 0) t_span->graph_ = graph;
  if (value != 0) t_span->value_ = value;
}

TraceSeen trace_seen() {
  TraceSeen seen;
  for (const auto& place : g_rings)
    if (const Ring* const ring = place.load(std::memory_order_acquire)) read(*ring, &seen);
  seen.lost += g_without_ring.load(std::memory_order_relaxed);
  if (g_by_clock.load(std::memory_order_relaxed)) return seen;
  const std::uint64_t ticks = trace_ticks(), ns = clock_ns();
  const double ns_per_tick =
      ticks > g_first_ticks ? static_cast<double>(ns - g_first_ns) / static_cast<double>(ticks - g_first_ticks) : 0;
  const auto in_ns = [&](std::uint64_t moment) {
    const double passed = moment > g_first_ticks ? static_cast<double>(moment - g_first_ticks) * ns_per_tick : 0;
    return g_first_ns + static_cast<std::uint64_t>(passed);
  };
  for (TraceEvent& event : seen.events) {
    event.begin = in_ns(event.begin);
    event.end = in_ns(event.end);
  }
  return seen;
}

}  // namespace graphpool
