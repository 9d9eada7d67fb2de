// stream.h: streams, a worker thread each, and events. Ordering is by completions: a piece of work starts when all that
// it waits for is complete, so the legacy null stream, events and stream waits are one mechanism.
// Threads: everything may be called from any thread. A device's order lock (device.h) guards what streams know of each
// other; a worker's queue has its own lock, taken inside it.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <variant>
#include <vector>

#include "api.h"
#include "operation.h"

namespace cpuhip {

class Device;
class Capture;     // capture.h: a capture in progress
struct GraphNode;  // graph.h

/// One moment that may not have come yet.
class Completion {
 public:
  /// The first call decides; later ones are ignored.
  void finish(hipError_t result);
  bool done() const { return state_.load(std::memory_order_acquire) != 0; }
  hipError_t wait();                                         ///< blocks; returns the result
  hipError_t wait_in_call();                                 ///< the same, of the host: such calls are counted
  std::int64_t finished_ns() const { return finished_ns_; }  ///< steady clock; once done

 private:
  std::atomic<int> state_{0};
  hipError_t result_ = hipSuccess;
  std::int64_t finished_ns_ = 0;
};
using Token = std::shared_ptr<Completion>;

/// A piece of work and its completion in one allocation.
struct Task : Completion {
  std::variant<std::monostate, std::function<hipError_t()>, Operation> work;
  std::vector<Token> after;
};

/// Runs tasks one after another on a thread of its own: a stream's, or a hardware queue that streams share
/// (CPUHIP_QUEUES), where a task that waits holds up whatever came behind it.
class Worker : public std::enable_shared_from_this<Worker> {
 public:
  explicit Worker(Device& device) : device_(device) {}

  void push(std::shared_ptr<Task> task);
  /// Nothing is pushed any more; `last` runs behind everything, at once where nothing ever was pushed.
  void close(std::function<void()> last);
  /// Whether the task at its head waits for others.
  bool held_up() const { return held_up_.load(std::memory_order_acquire); }

  std::atomic<int> streams{0};  ///< living ones that share it

 private:
  void run();

  Device& device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Task>> queue_;
  bool started_ = false, closing_ = false;
  std::atomic<bool> held_up_{false};
  std::function<void()> last_;
};

class Stream {
 public:
  Stream(Device& device, unsigned flags, int priority, bool is_null);

  Device& device() const { return device_; }
  unsigned flags() const { return flags_; }
  int priority() const { return priority_; }
  bool is_null() const { return is_null_; }  ///< the device's legacy null stream
  /// Orders with the null stream (created without hipStreamNonBlocking).
  bool blocking() const { return (flags_ & hipStreamNonBlocking) == 0; }
  /// Counts all streams of the process from 1.
  std::uint64_t generation() const { return generation_; }
  /// Set when its handle is dead.
  std::atomic<bool> gone{false};
  hipStream_t handle() const;

  /// Appends work: it runs on the stream's worker after everything before it, after `also_after`, and by the rules of
  /// the legacy null stream. Never blocks. The result of `work` becomes the device's sticky error when it is one.
  Token enqueue(std::function<hipError_t()> work, std::vector<Token> also_after = {});
  Token enqueue(Operation operation);
  /// A token that completes when everything enqueued so far has.
  Token marker();
  bool idle();
  bool held_up() const { return worker_->held_up(); }

  /// What hipStreamSetAttribute sets; nothing is done with it. Guarded by the device's order lock.
  struct Attributes {
    hipAccessPolicyWindow window{};
    int synchronization = 1;
  };
  Attributes attributes;

  /// The capture this stream takes part in, or null. Written under the process-wide capture lock (capture.cpp).
  std::atomic<Capture*> capture{nullptr};
  /// Its last nodes in that capture: what the next captured operation depends on. Guarded by the capture lock.
  std::vector<GraphNode*> capture_tail;
  /// Serials of nodes that hipStreamUpdateCaptureDependencies has taken from there in any capture. AMD's is never
  /// emptied either, but holds addresses, which other nodes have later: chance, which tests cannot compare. Guarded by
  /// the capture lock.
  std::unordered_set<std::uint64_t> capture_removed;

 private:
  friend void close_stream(Stream& stream);
  friend void end_stream(Stream& stream);
  friend hipError_t synchronize(Device& device);
  Token push(std::shared_ptr<Task> task);
  void push_locked(const std::shared_ptr<Task>& task);
  void collect(std::vector<Token>& after) const;
  void retire();

  Device& device_;
  const unsigned flags_;
  const int priority_;
  const bool is_null_;
  const std::uint64_t generation_;
  Token last_;  ///< guarded by the device's order lock
  const bool own_worker_;
  const std::shared_ptr<Worker> worker_;
};

/// Resolves a handle as HIP does: null and hipStreamLegacy are the current device's null stream, hipStreamPerThread the
/// calling thread's stream on the current device; `per_thread` (the _spt entries): null is the thread's stream too.
/// A handle never created: hipErrorContextIsDestroyed; a destroyed one ends the process with its name.
hipError_t resolve(hipStream_t handle, bool per_thread, Stream** stream);
/// The stream's part in a capture, invalidated or not.
hipStreamCaptureStatus capture_status(const Stream& stream);
/// The same, noted in the call for the journal and for its last error.
inline hipError_t resolve(Call& call, hipStream_t handle, bool per_thread, Stream** stream) {
  const hipError_t result = resolve(handle, per_thread, stream);
  if (result == hipSuccess) call.goes_into(capture_status(**stream));
  call.on_stream(result == hipSuccess ? (*stream)->handle() : handle);
  return result;
}
/// Null or a handle never created: hipErrorInvalidHandle; a destroyed one ends the process with its name.
hipError_t resolve(hipEvent_t handle, ihipEvent_t** event);
/// The quirk destroyed_streams_events: ends the process where the stream of the event's last record is destroyed.
void look_at_stream_of(const ihipEvent_t& event);

/// The way of all device work: validates; on a capturing stream adds a node to the capture (capture.h), else enqueues.
/// `token`: what was enqueued; null when it was captured or nothing is to be done.
hipError_t submit(Stream& stream, Operation operation, Token* token = nullptr);

/// Waits for all streams of a device, as hipFree and hipDeviceSynchronize do; returns its sticky error.
hipError_t synchronize(Device& device);

/// CPUHIP_SERIALISE: waits for what the calling thread has enqueued in this call.
void finish_serialised();

/// The stream of the calling thread on the current device.
Stream& per_thread_stream();
/// Ends a stream once its work is done, without waiting; its handle is dead already.
void close_stream(Stream& stream);
/// Ends a stream whose work is done: when it returns, the handle may be handed out again.
void end_stream(Stream& stream);
/// A stream that no program made, with a handle like any other.
Stream& make_private_stream(Device& device);
void end_private_stream(Stream& stream);
/// Ends all streams of a device but the null stream (hipDeviceReset).
void close_streams(Device& device);
/// A stream handle's generation for the journal; 0 when it is none.
std::uint64_t generation_of(hipStream_t handle);
std::size_t live_streams();
std::size_t live_events();
/// Calls that wait for work at this moment.
std::size_t waiting_calls();

std::int64_t now_ns();

}  // namespace cpuhip

struct ihipEvent_t {
  ihipEvent_t(int on_device, unsigned with_flags, std::uint64_t number)
      : generation(number), flags(with_flags), device(on_device) {}

  const std::uint64_t generation;
  const unsigned flags;
  const int device;
  std::mutex mutex;        ///< guards `recorded`
  cpuhip::Token recorded;  ///< last record outside a capture; null before
  /// Stream of the last record, captured or not, and its generation (a stream may be gone).
  std::atomic<cpuhip::Stream*> last_stream{nullptr};
  std::atomic<std::uint64_t> last_stream_generation{0};
  // Last record inside a capture: the capture's id and the nodes it stands for; guarded by the capture lock, but a
  // record outside a capture sets the id to 0.
  std::atomic<unsigned long long> capture_id{0};
  std::vector<cpuhip::GraphNode*> capture_nodes;
};
