// stream.h: streams, a worker thread each, and events. Ordering is by completions: a piece of work starts when all that
// it waits for is complete, so the legacy null stream, events and stream waits are one mechanism.
#pragma once

#include <hip/hip_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "operation.h"

namespace cpuhip {

class Device;
class Capture;     // capture.h: a capture in progress
struct GraphNode;  // graph.h

/// One moment that may not have come yet.
class Completion {
 public:
  void finish(hipError_t result);
  bool done() const;
  hipError_t wait();  ///< blocks; returns the result
  std::int64_t finished_ns() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  hipError_t result_ = hipSuccess;
  std::int64_t finished_ns_ = 0;
};
using Token = std::shared_ptr<Completion>;

class Stream {
 public:
  Device& device() const;
  unsigned flags() const;
  int priority() const;
  bool is_null() const;           ///< the device's legacy null stream
  bool blocking() const;          ///< orders with the null stream (created without hipStreamNonBlocking)
  std::uint64_t generation() const;
  hipStream_t handle() const;

  /// Appends work: it runs on the stream's worker after everything before it, after `also_after`, and by the rules of
  /// the legacy null stream. Never blocks. The result of `work` becomes the device's sticky error when it is one.
  Token enqueue(std::function<hipError_t()> work, std::vector<Token> also_after = {});
  /// A token that completes when everything enqueued so far has.
  Token marker();
  bool idle();

  /// The capture this stream takes part in, or null. Guarded by the process-wide capture lock (capture.h).
  Capture* capture = nullptr;
  /// Its last nodes in that capture: what the next captured operation depends on. Guarded likewise.
  std::vector<GraphNode*> capture_tail;
};

/// Resolves a handle as HIP does: null and hipStreamLegacy are the current device's null stream, hipStreamPerThread the
/// calling thread's stream on the current device; `per_thread` (the _spt entries): null is the thread's stream too.
/// A handle never created is hipErrorInvalidHandle... as HIP 5.2 answers; a destroyed one ends the process with its name.
hipError_t resolve(hipStream_t handle, bool per_thread, Stream** stream);

/// The way of all device work: validates; on a capturing stream adds a node to the capture (capture.h), else enqueues.
hipError_t submit(Stream& stream, Operation operation);

/// Waits for all streams of a device, as hipFree and hipDeviceSynchronize do.
hipError_t synchronize(Device& device);

}  // namespace cpuhip

struct ihipEvent_t {
  std::uint64_t generation = 0;
  unsigned flags = 0;
  cpuhip::Token recorded;               ///< last record outside a capture; null before
  cpuhip::Stream* last_stream = nullptr;
  std::int64_t recorded_ns = 0;
  // last record inside a capture: the capture's id and the nodes it stands for
  unsigned long long capture_id = 0;
  std::vector<cpuhip::GraphNode*> capture_nodes;
};
