// session.h: keeps the state of one open capture, guarded by the capture's lock, but for what its beginning sets. See
// capture.h for its life.
//
// It has a part for each job: streams and events, threads that feed it, the place in the tree, what was recorded, its
// fate, and the names by which the program knows its graph. The functions here concern several parts. Others that do:
// make_real.h, forks.h, open_graph.cpp.
// Session objects are used again for later captures and never freed: a thread may look, under the session's lock, at
// one that it fed before, and sees by the serial whether that is still the same capture. In a shell an operation costs
// a compare and a copy of its payload, and as a rule no allocation. The runtime is called there only after a call that
// may have invalidated the capture, changed the device or left an error.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <memory>

#include "shim/base/owner_lock.h"
#include "shim/capture/capture.h"
#include "shim/capture/capture_fate.h"
#include "shim/capture/capture_feeders.h"
#include "shim/capture/capture_recorder.h"
#include "shim/capture/capture_streams.h"
#include "shim/capture/graph_names.h"
#include "shim/capture/shell_matcher.h"
#include "shim/costs/step_costs.h"
#include "shim/hip/hip_version.h"
#include "shim/hip/private_handles.h"
#include "shim/kernel/argument_layout.h"
#include "shim/kernel/functions.h"
#include "shim/recording/materialisation.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {

/// The first version that captures kernels by whatever function they are launched: before, hipLaunchKernel only (probe
/// module_launch_is_captured).
inline constexpr int kCapturesAllLaunches = hip_version(5, 3);

struct CaptureSession {
  /// Sets up for a capture that has begun, by the calling thread. `known`: where such captures start in the tree; null:
  /// nowhere. `where`: the place of the program that began it.
  void start(StreamArgument origin, const Signature& begin, TreeNode* known, CaptureMode mode, const void* where)
      REQUIRES(lock);
  /// Ends the capture: no thread finds it by its serial any more, and it lets go of the tree. Takes kRecordings if it
  /// held the tree.
  void close() noexcept REQUIRES(lock);
  /// Lets go of the tree before the capture is over: a shell becomes real. Takes kRecordings if it held the tree.
  void leave_tree(const char* reason) REQUIRES(lock);
  /// Lets go of what the capture held. Call it when nobody refers to the capture any more.
  void reset() noexcept REQUIRES(lock);
  /// Gives the capture a new serial: threads find it anew by their stream, whose handle may be another one's now.
  void renew() noexcept REQUIRES(lock);

  /// Withholds an operation that the tree has next, or makes the program's call; notes it if it can be compared.
  hipError_t operation(StreamKey key, StreamArgument stream, Describe describe, Forward forward) REQUIRES(lock);
  /// Withholds a launch that is the first child of the shell's node, but for grid and arguments. Returns false, and
  /// withholds nothing, if it is not, or that is not certain. `kMayMove`: whether it may ask for host memory.
  template <MayMove kMayMove>
  bool take_launch(const KernelLaunch& launch) REQUIRES(lock);

  /// Whether the capture is open, and the stream takes part in it. Ask it under the lock: since the session was found,
  /// another thread may have ended the capture, or the stream's part in it.
  bool has_stream(StreamKey key) noexcept REQUIRES(lock) { return serial != 0 && streams.find(key) != nullptr; }
  /// Return false only where the capture has not noted the event, or does not name the graph. Need no lock.
  bool may_have_noted(hipEvent_t event) const noexcept NOT_CHECKED { return streams.may_have_noted(event); }
  bool may_name_graph(hipGraph_t graph) const noexcept NOT_CHECKED { return names.may_name_graph(graph); }
  bool shell() const noexcept REQUIRES(lock) { return matcher.shell() != nullptr; }
  /// Whether the test is true of an operation of the capture, withheld or not.
  bool has(OperationTest test) const REQUIRES(lock) { return shell() ? matcher.withholds(test) : recorder.has(test); }
  /// True once the program may know the graph of this capture.
  bool exposed() const noexcept REQUIRES(lock) { return fate.exposed() || names.given() || into != nullptr; }
  /// Makes the capture real and keeps it so. The reason goes to the report.
  void expose(const char* reason) REQUIRES(lock);
  void make_real_if_rejected() REQUIRES(lock);

  /// Notes that the calling thread feeds the stream now, and makes a rejected shell real. Call it before each
  /// operation.
  void note_feed(StreamKey stream) REQUIRES(lock);
  /// Asks the runtime whether the capture is still valid, if some thread may have made a call that invalidates
  /// captures. A withheld operation does not reach the runtime, so no result of it can tell.
  void check_status() REQUIRES(lock);
  /// Call it before the runtime is given something of the stream, or asked about the stream. In a real capture, what
  /// was withheld of the stream may have been issued on another stream: lets this one come behind that.
  void follow_on(StreamKey key) REQUIRES(lock);
  /// Returns a signature with the fields that do not depend on the operation: the stream's number, and the number of
  /// the thread that feeds the capture now.
  Signature signature_on(const CapturedStream& stream) REQUIRES(lock);
  /// Takes a fork, a join or the end of a stream, which has neither payload nor node: compares it or notes it.
  /// `differs`: the reason why the capture becomes real, if the tree does not have the operation.
  void take_bare(const Signature& signature, const char* differs) REQUIRES(lock);
  /// Makes the program's call for an operation whose payload begins at `offset`. If it fails, the payload is dropped
  /// and the capture is rejected.
  hipError_t forward_noted(std::size_t offset, Forward forward) REQUIRES(lock);

  /// Owned by the thread that feeds the capture now, where OwnerLock can.
  OwnerLock<LockRank::kCapture> lock;

  // Set before another thread can find the capture.
  std::uint64_t began = 0;       ///< when it began, for the trace; 0: it is not traced
  hipGraph_t into = nullptr;     ///< the program's graph that is captured into; null: a new one
  const void* thread = nullptr;  ///< the token of the thread that began it
  hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;  ///< in which it was begun

  std::uint64_t serial GUARDED_BY(lock) = 0;  ///< which capture this is; 0: none that is open
  /// The place of the program that began it; null: it is not judged by its place.
  const void* place GUARDED_BY(lock) = nullptr;
  Follow follow GUARDED_BY(lock) = Follow::kAll;  ///< what is followed of it, by its place
  CaptureStreams streams GUARDED_BY(lock);
  CaptureFeeders feeders GUARDED_BY(lock);
  ShellMatcher matcher GUARDED_BY(lock);
  CaptureRecorder recorder GUARDED_BY(lock);
  CaptureFate fate GUARDED_BY(lock);
  GraphNames names GUARDED_BY(lock);
  /// Why it was made real; `reason` is null when it never was a shell or still is.
  Materialisation materialised GUARDED_BY(lock);

 private:
  hipError_t record_operation(const Signature& signature, std::uint32_t offset, const ArgumentLayout* layout,
                              hipStream_t stream, StreamKey key, Forward forward) REQUIRES(lock);
  hipError_t forward_watched(hipStream_t stream, Forward forward) REQUIRES(lock);

  std::uint64_t doubts_ GUARDED_BY(lock) = 0;  ///< g_capture_doubts when it began, or the runtime was last asked
};

/// The capture that this thread fed last, found without the list. Valid while the session has this serial.
struct Fed {
  StreamKey stream;
  CaptureSession* session;
  std::uint64_t serial;
};
extern constinit thread_local Fed t_fed __attribute__((tls_model("initial-exec")));

// --- the short way of a launch ---

template <MayMove kMayMove>
[[gnu::always_inline]] inline bool CaptureSession::take_launch(const KernelLaunch& launch) {
  TreeNode* const standing = matcher.shell();
  if (standing == nullptr || fate.invalid() || fate.rejected() != nullptr || !feeders.caller_is_present() ||
      g_capture_doubts.load(std::memory_order_acquire) != doubts_)
    return false;
  TreeNode* const child = standing->first_child.load(std::memory_order_acquire);
  if (child == nullptr) return false;
  const Signature& known = child->operation.signature;
  CapturedStream* const all = streams.data();
  CapturedStream& where = all[known.stream];
  if (&where >= all + streams.size()) return false;
  if (where.key != reinterpret_cast<StreamKey>(launch.stream) || !feeders.device_known()) return false;
  if (kMayMove == MayMove::kNo && where.tail.size() != 1) return false;
  // Where no function has come or gone since the kernel was looked up, its layout and its generation still hold.
  const std::uint64_t version = functions().version();
  if (version == Functions::kChanging || child->functions_version.load(std::memory_order_relaxed) != version)
    return false;
  const LaunchFields fields(launch.form, launch.function, launch.validity, launch.shape);
  const bool as_known =
      fields.same(known, packed_devices(feeders.known_device(), where.device), known.stream, feeders.number());
  if (!as_known || !child->accepts(launch.shape.grid)) return false;

  const ArgumentLayout& layout = *child->operation.layout;
  Binding& binding = recorder.binding();
  const std::size_t offset = binding.size();
  KernelPayload shape = launch.shape;
  shape.argument_bytes = static_cast<std::uint32_t>(layout.bytes());
  std::byte* const segment = add_kernel_payload<kMayMove>(binding, shape);
  if (kMayMove == MayMove::kNo && segment == nullptr) return false;
  const Status packed =
      launch.extra == nullptr ? layout.pack(launch.params, segment) : layout.pack_extra(launch.extra, segment);
  if (packed != Status::kOk) [[unlikely]] {
    binding.resize(offset);
    return false;
  }
  matcher.advance(child);
  feeders.feed_again(where.key);
  where.follow(child->index);
  return true;
}

/// Does what matched_launch() does, without more ado. Returns false, and does nothing, where that asks for host memory,
/// makes a call of the runtime, waits for another thread or is timed, and where an entry has more to do than ask its
/// body. Needs no Entry. `caller`: the return address of the program's call.
[[gnu::always_inline]] inline bool matched_at_once(const KernelLaunch& launch, const void* caller) noexcept {
  const auto key = reinterpret_cast<StreamKey>(launch.stream);
  if (t_fed.stream != key || key <= reinterpret_cast<StreamKey>(hipStreamPerThread)) return false;
  if (t_inside || !active() || in_runtime(caller) || error_possible_in_capture() || t_step.timed ||
      g_private_handles.may_have(launch.stream))
    return false;
  CaptureSession& fed = *t_fed.session;
  if (!fed.lock.try_lock_as_owner()) return false;
  const bool matched = fed.serial == t_fed.serial && fed.take_launch<MayMove::kNo>(launch);
  fed.lock.unlock_as_owner();
  return matched;
}

}  // namespace graphpool
