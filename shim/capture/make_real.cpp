#include "shim/capture/make_real.h"

#include <algorithm>
#include <new>
#include <unordered_map>
#include <vector>

#include "shim/base/trace.h"
#include "shim/capture/capture_sink.h"
#include "shim/capture/left_alone.h"
#include "shim/capture/put_off_joins.h"
#include "shim/capture/stream_tail.h"
#include "shim/hip/next.h"
#include "shim/hip/private_objects.h"
#include "shim/hip/restore.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/reissue.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {
namespace {

/// A stream of the library's own, forked from a stream that takes part in the capture. The first call that needs it
/// makes it. The other stream is not used itself: nodes that it was made to let go of would count as joined.
class SubstituteStream {
 public:
  SubstituteStream() = default;
  SubstituteStream(const SubstituteStream&) = delete;
  SubstituteStream& operator=(const SubstituteStream&) = delete;
  ~SubstituteStream() {
    if (event_ != nullptr) static_cast<void>(PrivateCalls::worked([&] { return destroy_private(event_); }));
    if (stream_ != nullptr) static_cast<void>(PrivateCalls::worked([&] { return destroy_private(stream_); }));
  }
  /// Returns the stream, forked from one that takes part. It is made on the current device. Null where the runtime
  /// refuses.
  hipStream_t forked_from(hipStream_t taking_part) {
    if (tried_) return forked_ ? stream_ : nullptr;
    tried_ = true;
    if (!PrivateCalls::worked([&] { return make_private(&stream_); })) return nullptr;
    if (!PrivateCalls::worked([&] { return make_private(&event_); })) return nullptr;
    forked_ = PrivateCalls::worked([&] { return next().hipEventRecord(event_, taking_part); }) &&
              PrivateCalls::worked([&] { return next().hipStreamWaitEvent(stream_, event_, 0); });
    return forked_ ? stream_ : nullptr;
  }

 private:
  hipStream_t stream_ = nullptr;
  hipEvent_t event_ = nullptr;
  bool tried_ = false;   ///< forking was tried; never again, because a failure loses the capture
  bool forked_ = false;  ///< it captures
};

/// Issues what a capture has withheld.
class WithheldOperations {
 public:
  WithheldOperations(CaptureStreams& streams, CaptureRecorder& recorder, hipGraph_t graph)
      : streams_(streams), recorder_(recorder), graph_(graph), taking_(streams.size(), true) {
    // Each stream is asked whether it still captures; a single one is not, because no other could stand in.
    if (streams.size() > 1)
      std::transform(streams.begin(), streams.end(), taking_.begin(),
                     [](const CapturedStream& stream) { return stream.nameable() && stream.takes_part(); });
    active_ = static_cast<std::size_t>(std::find(taking_.begin(), taking_.end(), true) - taking_.begin());
  }

  /// Issues the operation and notes it. Returns false if it could not be issued.
  bool issue(const Operation& operation) {
    const Signature& signature = operation.signature;
    hipGraphNode_t node = nullptr;
    bool complete = true;
    if (makes_node(signature.kind))
      complete = signature.stream == kNoStream ? add_again(operation, &node) : issue_on_stream(operation, &node);
    recorder_.add(operation, node);
    return complete;
  }

  /// Lets each stream that takes nodes come behind what it did, and marks the others. Returns false if the runtime
  /// refused.
  bool set_tails() {
    bool complete = true;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      CapturedStream& stream = streams_[i];
      stream.issued_elsewhere = !taking_[i];
      device_.set(stream.device);  // a thread's own stream is that of the current device
      if (taking_[i])
        complete = tried_twice([&] { return recorder_.set_tail(stream.handle, stream.tail); }) && complete;
    }
    return complete;
  }

 private:
  /// Adds a node that the program had added by the graph's handle.
  bool add_again(const Operation& operation, hipGraphNode_t* node) {
    device_.set(current_device_of(operation.signature));
    const std::vector<hipGraphNode_t> after = recorder_.nodes_at(operation.after);
    return tried_twice([&] { return add_to_graph(operation, recorder_.binding(), graph_, after, node) == hipSuccess; });
  }

  /// Issues the operation on its stream. Where a stream was invalidated, or is another thread's own, another one stands
  /// in, so that the nodes are in the graph all the same.
  bool issue_on_stream(const Operation& operation, hipGraphNode_t* node) {
    const Signature& signature = operation.signature;
    const CapturedStream& named = streams_[signature.stream];
    hipStream_t stream = named.handle;
    if (!taking_[signature.stream]) {
      device_.set(named.device);
      stream = active_ < streams_.size() ? substitutes_[named.device].forked_from(streams_[active_].handle) : nullptr;
    }
    device_.set(current_device_of(signature));
    if (stream == nullptr) return false;
    const auto reissue = [&] {
      const NodeCreation making;
      return reissue_into_stream(signature, operation.payload_offset, operation.layout, recorder_.binding(), stream) ==
             hipSuccess;
    };
    return tried_twice([&] { return recorder_.set_tail(stream, operation.after); }) && tried_twice(reissue) &&
           tried_twice([&] { return (*node = last_node(stream)) != nullptr; });
  }

  CaptureStreams& streams_;
  CaptureRecorder& recorder_;
  const hipGraph_t graph_;
  const SavedDevice device_;
  std::vector<bool> taking_;                               ///< by stream: the runtime takes what it is given
  std::size_t active_ = 0;                                 ///< the first stream that takes what it is given
  std::unordered_map<int, SubstituteStream> substitutes_;  ///< by device
};

/// Issues what the session has withheld. Returns false if some of it could not be issued.
bool issue_all(CaptureSession& session, const std::vector<const TreeNode*>& path) REQUIRES(session.lock) {
  WithheldOperations withheld(session.streams, session.recorder, session.names.graph());
  bool complete = true;
  for (const TreeNode* const node : path) complete = withheld.issue(node->operation) && complete;
  return withheld.set_tails() && complete;
}

/// What the program captured cannot be had any more: the end of the capture answers that it is invalidated.
void lose(CaptureSession& session) noexcept REQUIRES(session.lock) {
  session.fate.lose();
  session.fate.reject("a withheld operation failed when it was issued");
}

}  // namespace

void make_real(CaptureSession& session, const char* reason, const Signature* own) {
  const TraceSpan traced(TraceKind::kMadeReal);
  const TreeNode& standing = *session.matcher.shell();
  session.materialised = describe_materialisation(reason, standing, std::size_t{standing.index} + 1, own);
  tell_trace(reason, session.materialised.graph);
  const LastErrorScope last_error;
  make_joins(session);
  const std::vector<const TreeNode*> path = session.matcher.withheld();
  session.matcher.leave_shell();
  try {
    const bool complete = issue_all(session, path);
    if (session.follow == Follow::kKnown) session.fate.reject(kSeldomComesBack);
    if (session.names.tracked() != nullptr)
      open_graphs().made_real(*session.names.tracked(), session.names.graph(), session.recorder.nodes());
    if (!complete) lose(session);
  } catch (const std::bad_alloc&) {
    session.streams.forget_tails();  // they may name operations that were not issued
    lose(session);
    throw;
  }
}

void make_real_before(CaptureSession& session, std::size_t offset, const char* reason, const Signature& own) {
  Binding& binding = session.recorder.binding();
  const Binding payload(binding.begin() + offset, binding.end());
  binding.resize(offset);
  make_real(session, reason, &own);
  binding.append(payload.begin(), payload.end());
}

}  // namespace graphpool
