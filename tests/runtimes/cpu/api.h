// api.h: what every exported function of the CPU runtime goes through: the journal, injected failures, added cost,
// the thread's last error.
//
// Environment (read once, at the first call):
//   CPUHIP_DEVICES=n           number of devices (default 1)
//   CPUHIP_JOURNAL=file        one line a call, appended when it returns; %p stands for the process id. Columns with
//                              blanks between: name, thread (1, 2 ... in the order of their first calls), device,
//                              stream (handle or -), the stream's generation, result (number)
//   CPUHIP_FAIL=name:n[:code]  the n-th call (from 1; 0: every call) of name returns code (default:
//                              hipErrorOutOfMemory if it is an allocation, else hipErrorUnknown); name * counts all
//                              calls; commas between several
//   CPUHIP_COST=name:ns        busy time added to each call of name; * for every call; commas between several
//   CPUHIP_VERSION=50221153    what hipRuntimeGetVersion answers; layouts and enumerators follow it (default: by the
//                              library's SONAME)
//   CPUHIP_MEMORY=bytes        memory of each device (default 1 GiB)
//   CPUHIP_SHARED=file         all processes that name this file share the devices' memory: what one has, others have
//   not.
//                              A process that ends by exit gives back what it had
//   CPUHIP_REUSE=mode          when a freed address or a handle of what is gone (streams, events, functions, graphs
//                              and what belongs to them) is handed out again:
//                              late (default: oldest first, after 64 others), never, once (at once; always is the
//                              same) or random
//   CPUHIP_GONE=mode           what a call with a graph, node or exec gets that was destroyed and is not handed out
//                              again: fatal (default: the process ends with its name), refused (hipErrorInvalidValue),
//                              or looked_up: refused where AMD's runtime looks the handle up before it uses it
//                              (destroyed.cpp), fatal where not; a destroyed stream is refused, and so is a
//                              destroyed event by hipEventDestroy (hipErrorContextIsDestroyed)
//   CPUHIP_POISON=0            leaves fresh memory as the kernel gives it, zeroed (default 1: filled with 0xCD; that
//                              costs a page fault each 4 KiB, so benchmarks of allocations switch it off)
//   CPUHIP_VMM=0               virtual memory management answers hipErrorNotSupported (default 1)
//   CPUHIP_QUEUES=k            all streams of one priority on a device share k hardware queues, as AMD's runtime does
//                              with four (default 0: each stream has one of its own). A queue runs its work in the
//                              order it was enqueued: what waits, for an event, a value or a kernel that spins, holds
//                              up all streams of the queue
//   CPUHIP_SERIALISE=1         every call that enqueues work returns when the work is done
//   CPUHIP_JITTER=us           a call, and what was enqueued before it runs and before it is complete, waits now and
//                              then, up to so long (default 0): what depends on who is faster shows sooner
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <new>

#define CPUHIP_EXPORT extern "C" __attribute__((visibility("default")))

namespace cpuhip {

enum class Reuse { Never, Late, Once, Random };
enum class Gone { Fatal, Refused, LookedUp };

struct Config {
  int devices = 1;
  int version = 50221153;
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;
  const char* shared = nullptr;  ///< CPUHIP_SHARED; null: the memory is this process's alone
  Reuse reuse = Reuse::Late;
  Gone gone = Gone::Fatal;
  bool poison = true;
  bool vmm = true;
  int queues = 0;
  bool serialise = false;
  std::uint64_t jitter_us = 0;
};
const Config& config();

/// CPUHIP_JITTER: a wait, or none. errno stays.
void jitter();

/// One call of an exported function, from entry to return. Nested calls (an exported function calling another one's
/// implementation) do not journal: bodies call each other's implementation, never an exported name.
class Call {
 public:
  enum class Effect { Device, Query };
  /// Effect::Query: works without a device and after its sticky error.
  explicit Call(const char* name, Effect effect = Effect::Device);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// The code to return at once when this call is to fail (CPUHIP_FAIL, or the device's sticky error); else hipSuccess.
  hipError_t injected() const { return injected_; }
  /// Notes the stream for the journal.
  void on_stream(hipStream_t stream) { stream_ = stream; }
  /// Records the result for the journal and the thread's last error; returns it.
  hipError_t leave(hipError_t result);
  /// Whatever it answers, the thread's last error stays: HIP 6 (seen of AMD's 6.4.3) does not note it here.
  void leaves_last_error();
  /// It is refused so that no version makes the refusal the last error.
  void is_refused_silently() { leaves_last_error_ = true; }
  /// The call is one for a stream whose capture has this status: some of these leave the last error
  /// (kLeaveErrorCaptured).
  void goes_into(hipStreamCaptureStatus capture);
  /// Records a result that is no hipError_t for the journal alone.
  void leave_other(int result) { result_ = result; }

 private:
  const char* name_;
  const char* outer_name_;
  hipStream_t stream_ = nullptr;
  hipError_t injected_ = hipSuccess;
  int result_ = 0;
  bool leaves_last_error_ = false;
};

/// Runs the body of an exported function that returns hipError_t:
///   CPUHIP_EXPORT hipError_t hipFoo(int x) { return cpuhip::api("hipFoo", [&](cpuhip::Call& call) { ... }); }
template <typename Body>
hipError_t api(const char* name, Body&& body, Call::Effect effect = Call::Effect::Device) {
  Call call(name, effect);
  if (call.injected() != hipSuccess) return call.leave(call.injected());
  try {
    return call.leave(body(call));
  } catch (const std::bad_alloc&) {
    return call.leave(hipErrorOutOfMemory);
  }
}

/// The same for functions that need no device and answer after a sticky error.
template <typename Body>
hipError_t query_api(const char* name, Body&& body) {
  return api(name, body, Call::Effect::Query);
}

/// The same for functions whose result is no hipError_t (hipRTC): it is journalled as a number, the last error stays.
/// `failure` is the result of an injected failure.
template <typename Result, typename Body>
Result plain_api(const char* name, Result failure, Body&& body) {
  Call call(name, Call::Effect::Query);
  const Result result = call.injected() != hipSuccess ? failure : body();
  call.leave_other(static_cast<int>(result));
  return result;
}

/// For functions that return nothing or a pointer: a journal line only.
inline void journal(const char* name) { Call call(name, Call::Effect::Query); }

/// The exported function the calling thread is in; "" outside.
const char* current_call();

/// Whether that function refuses what is destroyed; `noun`: what a handle stands for.
bool refuses_destroyed(const char* noun);

/// Ends the process with a message: misuse of a destroyed object, a broken invariant of a test.
[[noreturn]] void fatal(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace cpuhip
