// trace.h: keeps what the library does and when for the trace file (report/trace_file.h), and tells it to the log
// (event_log.h).
//
// Each thread has a ring of its last events. A ring that is full loses its oldest event for each new one, and the file
// says how many were lost. A thread gets its ring at its first event: memory of the kernel's, no lock, no call of the
// program's allocator. A thread with the token (owned_count.h) of one that has ended takes over its ring.
//
// Cost: one look at a flag while nothing is traced; for a span in the file two looks at the clock and seven stores.
// Threads: any. An event that is not logged may be noted under any lock. Texts are literals or kept for good. Units:
// ticks, and ns once they are read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace graphpool {

enum class TraceKind : std::uint8_t {
  kCapture,      ///< from its beginning to its end; may end in another thread than it began in
  kInstantiate,  ///< the program's call
  kUpdate,       ///< the program's call
  kLaunch,       ///< the program's call
  kCopies,       ///< copies between the program's memory and slots enqueued for a launch
  kMadeReal,     ///< what was withheld is given to the runtime
  kWait,         ///< a wait inside the library
  kCompile,      ///< a compilation, with what it waits for its permit
  kKept,         ///< how many bytes are kept: begins and ends at once
  kGivenBack,    ///< kept memory goes back to the runtime: begins and ends at once
};
inline constexpr std::size_t kTraceKinds = 10;

struct TraceEvent {
  TraceKind kind{};
  std::uint32_t thread = 0;  ///< as gettid() has it; trace() fills it in
  std::uint64_t begin = 0, end = 0;
  const char* detail = nullptr;  ///< the way, the reason, ...; null: nothing to say
  std::uint64_t graph = 0;       ///< number of its recording, 0: none; of kKept and kGivenBack the device
  std::uint64_t value = 0;       ///< operations of a capture; else bytes
};

inline constexpr std::size_t kTraceRing = (std::size_t{1} << 14) - 1;  ///< events that a thread's ring keeps
inline constexpr std::size_t kMostTraceRings = 128;                    ///< threads beyond that are not traced

/// What events are made for: one of these, or both.
enum class TraceUse : std::uint8_t { kFile = 1, kLog = 2 };

inline constinit std::atomic<std::uint8_t> g_trace_uses{0};
/// Whether events are noted. If they are not, the caller does nothing for the trace.
[[nodiscard]] inline bool trace_on() noexcept { return g_trace_uses.load(std::memory_order_relaxed) != 0; }
/// Whether events are noted for this use.
[[nodiscard]] inline bool trace_on(TraceUse use) noexcept {
  return (g_trace_uses.load(std::memory_order_relaxed) & static_cast<std::uint8_t>(use)) != 0;
}

/// Traces for this use from now on. A forked child traces nothing. Call it once for each use, by one thread at a time.
void begin_trace(TraceUse use) noexcept;
/// Traces no more; what was noted stays.
void end_trace() noexcept;

/// Tells the time in ticks, never 0. Pre-condition: begin_trace() was called for a use.
std::uint64_t trace_ticks() noexcept;
/// Tells the time in ticks, or 0 where nothing is traced.
inline std::uint64_t trace_begins() noexcept { return trace_on() ? trace_ticks() : 0; }
/// Notes an event.
void trace(TraceEvent event) noexcept;
/// Notes for the file how many bytes are kept on a device. Does nothing if that was noted within the last 2,000,000
/// ticks, of this device or another.
void trace_kept(int device, std::uint64_t bytes) noexcept;

/// Notes an event that lasts as long as this object. Spans of one thread lie inside one another.
class TraceSpan {
 public:
  explicit TraceSpan(TraceKind kind) noexcept {
    if (trace_on()) [[unlikely]]
      begin(kind, trace_ticks());
  }
  /// For an event that began earlier. 0: it is not traced.
  TraceSpan(TraceKind kind, std::uint64_t began) noexcept {
    if (began != 0) [[unlikely]]
      begin(kind, began);
  }
  ~TraceSpan() {
    if (began_ != 0) [[unlikely]]
      end();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

  /// Ends without an event.
  void drop() noexcept { dropped_ = true; }

 private:
  friend void tell_span(const char* detail, std::uint64_t graph, std::uint64_t value) noexcept;
  void begin(TraceKind kind, std::uint64_t began) noexcept;
  void end() noexcept;

  std::uint64_t began_ = 0;  ///< 0: nothing is traced, and what follows is not set
  bool dropped_ = false;
  TraceKind kind_;
  const char* detail_;
  std::uint64_t graph_, value_;
  TraceSpan* outer_;
};

void tell_span(const char* detail, std::uint64_t graph, std::uint64_t value) noexcept;
/// Says what the calling thread's innermost span is about. A null text and a 0 change nothing. The function does
/// nothing if the thread has no span.
inline void tell_trace(const char* detail, std::uint64_t graph, std::uint64_t value = 0) noexcept {
  if (trace_on()) [[unlikely]]
    tell_span(detail, graph, value);
}

/// What the rings hold, with times of CLOCK_MONOTONIC in ns instead of ticks, in no order; and how many events were
/// lost. Events that are overwritten meanwhile are lost. Throws std::bad_alloc.
struct TraceSeen {
  std::vector<TraceEvent> events;
  std::uint64_t lost = 0;
};
TraceSeen trace_seen();

}  // namespace graphpool
