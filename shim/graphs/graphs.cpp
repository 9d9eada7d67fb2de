#include "shim/graphs/graphs.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "policy/policy.h"
#include "shim/base/back_off.h"
#include "shim/base/log.h"
#include "shim/base/seeded_defect.h"
#include "shim/base/trace.h"
#include "shim/base/waits.h"
#include "shim/capture/capture.h"
#include "shim/capture/session.h"
#include "shim/costs/hit_rate.h"
#include "shim/costs/step_costs.h"
#include "shim/costs/way_counts.h"
#include "shim/execs/exec_size.h"
#include "shim/graphs/node_graphs.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/kernel/functions.h"
#include "shim/memory/buffer_rules.h"
#include "shim/memory/freed_memory.h"
#include "shim/memory/pool.h"
#include "shim/memory/shared_memory.h"
#include "shim/recording/node_check.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/patch_table.h"
#include "shim/recording/reissue.h"
#include "shim/recording/signature_bits.h"
#include "shim/streams/open_captures.h"
#include "shim/streams/stream_work.h"
#include "shim/verify/stale_addresses.h"

namespace graphpool {
namespace {

constexpr const char* kUnknownGraphInstantiated = "a graph that is not known was instantiated";
constexpr const char* kUnknownExecUpdated = "an update of an exec that is not known";
constexpr const char* kTouchedExecUpdated = "an update of an exec that the program has reached otherwise";
constexpr const char* kUpdateTellsNothing = "an update that tells nothing of its result";
constexpr const char* kUpdateByUnknown = "an update by a graph that is not known";
constexpr const char* kUpdateRefused = "an update that the runtime refused";
constexpr const char* kOtherChildGraphs = "updates by graphs with other child graphs";

/// Host memory of a recording: its operations, their nodes in the tree, its binding and the last one (see history).
std::size_t recording_memory(const std::vector<Operation>& operations) noexcept {
  std::size_t bytes = sizeof(Recording) + operations.size() * (sizeof(Operation) + sizeof(TreeNode)) +
                      2 * std::size_t{operations.back().payload_offset};
  for (const Operation& operation : operations) bytes += operation.after.size() * sizeof operation.after[0];
  return bytes;
}

/// What the recording has saved its program, by the costs as they are now: captures, execs and updates that were not
/// made, less what was patched, copied and made in their place.
double saved_ns(const Recording& recording) noexcept {
  const Recording::Statistics& counts = recording.statistics;
  const CostModel& model = costs();
  const auto times = [](std::uint64_t count, double ns) { return static_cast<double>(count) * ns; };
  const std::uint64_t nodes = recording.node_count;
  return times(counts.captures_avoided * nodes, model.ns(Cost::kCaptureNode)) +
         times(counts.instantiates_avoided * nodes,
               model.ns(Cost::kInstantiateNode) + model.ns(Cost::kFirstLaunchNode)) +
         times(counts.updates_avoided * nodes, model.ns(Cost::kPatchNode)) -
         times(counts.instead_of_update, model.exec_ns(nodes, &recording.exec_costs)) -
         times(counts.built_for_update * nodes, model.ns(Cost::kBuildNode)) -
         times(counts.patched_nodes, model.ns(Cost::kPatchNode)) -
         times(counts.staged.bytes / 1024, model.ns(Cost::kCopyKiB));
}

/// Once more where memory has run out and the launch is no part of a capture. The runtime may load code then.
[[gnu::hot]] hipError_t launch_with_room(hipGraphExec_t exec, bool captured, NativeExecCall native) {
  const auto launch = [&] { return native(exec); };
  return captured ? launch() : retry_with_room(launch);
}

/// Whether child graphs of the two bindings differ: the runtime is not known to patch them (recording/patch_table.h).
bool child_differs(const Recording& recording, const Binding& a, const Binding& b) noexcept {
  return !recording.children.empty() && a.size() == b.size() &&
         std::any_of(recording.operations.begin(), recording.operations.end(), [&](const Operation& operation) {
           return operation.signature.kind == OperationKind::kChild && !same_payload(operation, a, b);
         });
}

/// The name of the kernel that an operation launches, kept for good; null: it launches none, or it is not known.
const char* kernel_name(const Signature& signature) noexcept {
  const void* const kernel = kernel_of(signature);
  return kernel == nullptr ? nullptr : functions().find(kernel).name;
}

/// Whether the stream is one of this device's. In doubt it is not.
bool is_stream_of(int device, hipStream_t stream) noexcept {
  const int on = stream_work().device_of_stream(stream);
  return (on < 0 ? device_of({stream, false}) : on) == device;
}

}  // namespace

[[gnu::hot]] Graphs& graphs() noexcept {
  static Graphs* const instance = new Graphs;
  return *instance;
}

hipError_t judge_stream(hipStream_t stream) noexcept {
  if (stream == nullptr || stream == kStreamLegacy || stream == hipStreamPerThread) {
    static_cast<void>(calling_device());  // HIP before 7: any call's result is the last error
    return hipSuccess;
  }
  unsigned flags = 0;
  return next().hipStreamGetFlags(stream, &flags);
}

bool stream_is_gone(hipStream_t stream) noexcept {
  if (stream == nullptr || stream == kStreamLegacy || stream == hipStreamPerThread) return false;
  unsigned flags = 0;
  const hipError_t pending = pending_error();
  const hipError_t result = next().hipStreamGetFlags(stream, &flags);
  if (result != hipSuccess) clear_error(pending);
  return result == hipErrorContextIsDestroyed;
}

// --- captures ---

TreeNode* Graphs::walk_begins(const Signature& begin, bool* verify) {
  const LockGuard guard(lock_);
  TreeNode* const node = tree_.find_begin(begin);
  if (node == nullptr) return nullptr;
  ++walks_;
  *verify = settings_.verify.mode != Verify::Mode::kOff && wants_verification(*node);
  return node;
}

/// Which recording a capture will be is known only at its end, but whether it takes the real path is decided here. So
/// first:K goes on until every recording with this beginning has been verified K times, for so many captures as that
/// would take if they came in turn. Under lock_.
bool Graphs::wants_verification(TreeNode& begin) {
  std::uint64_t below = 0;
  bool pending = false;
  for (const auto& recording : recordings_) {
    if (recording->operations.front().signature != begin.operation.signature) continue;
    ++below;
    pending = pending || (recording->rebuildable.load(std::memory_order_relaxed) &&
                          settings_.verify.wants(recording->statistics.verified));
  }
  if (below == 0) return false;
  if (settings_.verify.mode == Verify::Mode::kEvery) return settings_.verify.wants(begin.walks++);
  return pending && begin.walks++ < below * settings_.verify.count;
}

void Graphs::capture_verified(Recording& recording) noexcept {
  const LockGuard guard(lock_);
  ++recording.statistics.verified;
}

void Graphs::capture_differs(Recording& recording, const Operation& operation, const Binding& binding,
                             hipGraphNode_t node, const char* why) {
  if (!recording.rebuildable.exchange(false)) return;
  {
    const LockGuard guard(lock_);
    ++recording.statistics.differences;
  }
  log_error("verify: graph %llu, %s: %s; captures of it are left to the runtime from now on",
            static_cast<unsigned long long>(recording.number), difference_of(node, operation, binding).c_str(), why);
}

void Graphs::walk_ended() noexcept {
  const LockGuard guard(lock_);
  if (--walks_ == 0) prune_tree();
}

/// No capture walks the tree. Under lock_.
void Graphs::prune_tree() noexcept {
  tree_.prune();
  left_ = left_bytes_ = 0;
}

HeldRecording Graphs::hold(const TreeNode& end) noexcept {
  const LockGuard guard(lock_);
  Recording* const recording = end.graph.load(std::memory_order_relaxed);
  if (recording != nullptr) ++recording->users;
  return HeldRecording(recording);
}

void Graphs::let_go(Recording& recording) noexcept {
  const LockGuard guard(lock_);
  --recording.users;
}

HeldRecording::~HeldRecording() {
  if (recording_ != nullptr) graphs().let_go(*recording_);
}

/// The recording of a graph's recording: the one it has, or a new one. Under the lock. Throws std::bad_alloc; then
/// there is none.
Recording* Graphs::recording_for(std::vector<Operation> operations, const TrackedGraph& known) {
  TreeNode* const found = tree_.find(operations, known.binding);
  Recording* const there = found == nullptr ? nullptr : found->graph.load(std::memory_order_acquire);
  if (there != nullptr) return there;
  auto made = std::make_unique<Recording>();
  made->operations = std::move(operations);
  for (const Operation& operation : made->operations) made->node_count += makes_node(operation.signature.kind) ? 1 : 0;
  made->number = ++last_number_;
  made->away = returns_.away_for(made->operations);
  if (settings_.track_operands)
    for (const Operation& operation : made->operations) made->kernels.push_back(kernel_name(operation.signature));
  made->exec_bytes = exec_memory(made->operations, runtime_version());
  for (const Operation& operation : made->operations) made->argument_bytes += argument_memory(operation);
  made->host_bytes = recording_memory(made->operations);
  if (known.build != nullptr)
    for (const HeldRecording& child : known.build->children) made->children.push_back(&*child);
  recordings_.reserve(recordings_.size() + 1);
  made->end = tree_.insert(made->operations, known.binding);
  recording_bytes_ += made->host_bytes;
  Recording* const recording = made.get();
  recording->fills_rows =
      std::any_of(recording->operations.begin(), recording->operations.end(), [](const Operation& operation) {
        return holds(operation, [](const Operation& each) { return fills_rows(each); });
      });
  for (Recording* const child : recording->children) ++child->users;
  recordings_.push_back(std::move(made));
  recording->end->number.store(recording->number, std::memory_order_relaxed);
  recording->end->graph.store(recording, std::memory_order_release);
  return recording;
}

bool Graphs::learn(TrackedGraph& known, std::vector<Operation> operations, const void* place) {
  for (const Operation& operation : operations) static_cast<void>(patch_is_exact(operation.signature));  // without lock
  bool learned = false;
  {
    const LockGuard guard(lock_);
    ++totals_.captures;
    known.recording = recording_for(std::move(operations), known);
    const std::uint64_t away = note_captured(*known.recording);
    if (away != 0 && place != nullptr) hit_rates().came_back(place, away);
    ++known.recording->users;
    tell_trace(nullptr, known.recording->number);
    if (++known.recording->statistics.captures != 1) return false;
    learned = !over_limit();
  }
  // The first of its kind: prove that a graph of our own can be made of it. The first exec will use that graph.
  Recording& recording = *known.recording;
  auto first = std::make_unique<Variant>();
  first->memory_freed = memory_freed();
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  if (build_graph(recording.operations, known.binding, &first->graph, &first->nodes) != hipSuccess) return learned;
  first->baked = known.binding;
  recording.first = std::move(first);
  recording.rebuildable.store(true, std::memory_order_release);
  return learned;
}

hipGraph_t Graphs::real_graph_captured(CapturedGraph captured, RecordedCapture recording, bool* learned) {
  const auto known = captured.told != nullptr ? captured.told : std::make_shared<TrackedGraph>();
  {
    const LockGuard guard(known->lock);
    known->real = captured.graph;
    known->memory_freed = recording.memory_freed;
    known->binding = std::move(recording.binding);
    known->nodes = std::move(recording.nodes);
    if (captured.holds_objects) known->objects = std::make_shared<ObjectHolder>(captured.graph);
  }
  *learned = learn(*known, std::move(recording.operations), captured.place);
  if (captured.told == nullptr) {
    known_.add_real(known);
  } else {
    static_cast<void>(made_private(hipSuccess, &captured.graph));  // the program knows it by our handle only
    known_.told_ended(known);
  }
  return known->handle;
}

hipGraph_t Graphs::untracked_graph_captured(CapturedGraph captured) {
  if (captured.told == nullptr) return captured.graph;
  {
    const LockGuard guard(captured.told->lock);
    captured.told->real = captured.graph;
    captured.told->no_longer_exact();
  }
  known_.told_ended(captured.told);
  return captured.told->handle;
}

bool Graphs::with_first_graph(Recording& recording, const Binding& binding, GraphUse use, hipError_t* result) {
  std::unique_ptr<Variant> first;
  {
    const LockGuard guard(lock_);
    if (recording.first == nullptr || Variants::outlived_memory(recording, *recording.first) ||
        !graph_is_settable(recording.operations, recording.first->baked, binding))
      return false;
    first = std::move(recording.first);  // nobody else has it meanwhile
  }
  {
    const PrivateCalls private_calls;
    if (!set_graph(recording.operations, binding, first->nodes, &first->baked)) return false;
  }
  *result = use(first->graph, first->nodes);
  const LockGuard guard(lock_);
  recording.first = std::move(first);
  return true;
}

void Graphs::handed_out(Recording& recording) noexcept {
  const LockGuard guard(lock_);
  ++recording.users;
  note_handed_out(recording);
}

/// Under lock_.
void Graphs::note_used(Recording& recording) noexcept {
  recording.last_used = ++clock_;
  recording.used_at = returns_.now();
}

/// A capture, or what was built node by node, has come to this. Returns how many captures ago it was used; 0: it is
/// new. Under lock_.
std::uint64_t Graphs::note_captured(Recording& recording) noexcept {
  const char* why = nullptr;
  const std::uint64_t now = returns_.captured(captures_left_alone(0, &why) + captures_left_alone(1, &why));
  const std::uint64_t away = recording.used_at == 0 ? recording.away : now - recording.used_at;
  returns_.came_back(away);
  note_used(recording);
  return away;
}

/// Under lock_.
std::uint64_t Graphs::note_handed_out(Recording& recording) noexcept {
  ++recording.statistics.captures_avoided;
  ++totals_.withheld_captures;
  return note_captured(recording);
}

hipGraph_t Graphs::make_deferred_graph(HeldRecording recording, Binding binding, CapturedGraph captured) {
  const auto known = captured.told != nullptr ? captured.told : std::make_shared<TrackedGraph>();
  if (captured.holds_objects) {
    known->objects = std::make_shared<ObjectHolder>(captured.graph);
    known->objects->hide();
  } else {
    static_cast<void>(PrivateCalls::worked([&] { return next().hipGraphDestroy(captured.graph); }));
  }
  {
    const LockGuard guard(known->lock);
    known->binding = std::move(binding);
    known->recording = recording.release();
    const LockGuard templates(lock_);
    const std::uint64_t away = note_handed_out(*known->recording);
    if (captured.place != nullptr) hit_rates().came_back(captured.place, away);
    known->recording->place = captured.place;
  }
  if (captured.told != nullptr) {
    known_.told_ended(known);
    return known->handle;
  }
  if (const hipGraph_t handle = known_.add_deferred(known)) return handle;
  // No handle to be had: the program gets a graph of its own.
  static_cast<void>(known_.make_real(*known, "no handle left"));
  if (known->real != nullptr) {
    known_.add_real(known);
    return known->real;
  }
  const LockGuard guard(lock_);
  --known->recording->users;
  return nullptr;
}

void Graphs::note_refused(const char* why) noexcept { refusals_.count(why); }

void Graphs::note_left(const char* why) noexcept { left_to_runtime_.count(why); }

void ProgramExec::touch(const char* why) noexcept {
  if (!std::exchange(touched_, true)) graphs().note_left(why);
}

/// Whether the tree still has the nodes of as many recordings as may be kept at most, although they are gone.
bool Graphs::tree_over_limit() const noexcept {
  const LockGuard guard(lock_);
  return left_ > settings_.most_recordings || left_bytes_ > settings_.most_recording_bytes;
}

/// Whether a launch of it is being made.
bool is_launching(const Recording& recording) noexcept {
  return std::any_of(recording.variants.begin(), recording.variants.end(),
                     [](const auto& variant) { return variant->under_way.load(std::memory_order_acquire) != 0; });
}

/// Whether there are more recordings, or larger ones, than may be kept. Under lock_.
bool Graphs::over_limit() const noexcept {
  return recordings_.size() > settings_.most_recordings || recording_bytes_ > settings_.most_recording_bytes;
}

/// Returns the place of the recording that is to go. Returns the number of recordings if none can go: only those that
/// nobody refers to can. Usually the least recently used one goes. If recordings often stay away for longer than that
/// one has, it will probably come back. Then the newest recording that has not come back goes instead, unless this one
/// is known to come back sooner. Under lock_.
std::size_t Graphs::recording_to_drop() const noexcept {
  std::size_t oldest = recordings_.size(), newest = recordings_.size();
  for (std::size_t i = 0; i < recordings_.size(); ++i) {
    const Recording& recording = *recordings_[i];
    if (recording.users != 0 || is_launching(recording)) continue;
    if (oldest == recordings_.size() || recording.last_used < recordings_[oldest]->last_used) oldest = i;
    if (!recording.came_back() &&
        (newest == recordings_.size() || recording.last_used > recordings_[newest]->last_used))
      newest = i;
  }
  if (oldest == recordings_.size() || newest == recordings_.size()) return oldest;
  const std::uint64_t unused = returns_.now() - recordings_[oldest]->used_at, away = recordings_[newest]->away;
  return !returns_.often_after(unused) || (away != 0 && away < unused) ? oldest : newest;
}

/// Too many recordings, or too large. Under lock_.
void Graphs::trim_recordings(Variants::Retired* retired) {
  drop_outdated(retired);
  while (over_limit()) {
    const std::size_t which = recording_to_drop();
    if (which == recordings_.size()) return;
    Recording& recording = *recordings_[which];
    returns_.let_go(recording.operations, recording.used_at);
    drop_recording(which, "others were used later, and there were too many", retired);
  }
}

/// Those that nobody refers to any more go. Under lock_.
void Graphs::drop_outdated(Variants::Retired* retired) {
  if (outdated_ == 0) return;
  for (std::size_t i = recordings_.size(); i-- > 0;)
    if (recordings_[i]->outdated && recordings_[i]->users == 0 && !is_launching(*recordings_[i]))
      drop_recording(i, "a module with a kernel of it was unloaded", retired);
}

/// Under lock_. Pre-condition: nobody refers to it.
void Graphs::drop_recording(std::size_t which, const char* why, Variants::Retired* retired) {
  Recording& recording = *recordings_[which];
  if (recording.outdated) --outdated_;
  tree_.drop(recording.end);
  ++left_;
  left_bytes_ += recording.host_bytes;
  if (walks_ == 0) prune_tree();
  while (!recording.variants.empty()) retired->push_back(variants_.remove(recording, recording.variants.back().get()));
  retired->push_back(std::move(recording.first));
  ++totals_.recordings_dropped;
  totals_.saved_ns += saved_ns(recording);
  if (settings_.track_operands) {
    if (dropped_.size() == kMostDroppedTold) dropped_.pop_front();
    dropped_.push_back(report_of(recording));
    dropped_.back().dropped = why;
  }
  recording_bytes_ -= recording.host_bytes;
  for (Recording* const child : recording.children) --child->users;
  recordings_.erase(recordings_.begin() + static_cast<std::ptrdiff_t>(which));
}

// --- execs ---

/// What an exec is to be made of by a graph: its recording, now used by one more, and its binding. Null: it is not
/// known. *outlived: memory that a node of it names may be freed, or may be going in stream order.
Recording* Graphs::recording_of(TrackedGraph& known, Binding* binding, bool* real, bool* outlived, Objects* objects) {
  const LockGuard guard(known.lock);
  if (known.build != nullptr) finish_build(known);
  if (!known.exact() || known.recording == nullptr) return nullptr;
  if (objects != nullptr) {
    // An exec of the program's own graph would hold its user objects for as long as the library keeps it.
    if (known.objects != nullptr && !known.recording->rebuildable.load(std::memory_order_acquire)) return nullptr;
    *objects = known.objects;
  }
  *binding = known.binding;
  *real = known.real != nullptr;
  *outlived = *real && Variants::outlived_memory(*known.recording, known.memory_freed);
  const LockGuard templates(lock_);
  note_used(*known.recording);
  if (settings_.track_operands) known.recording->moved.note(known.recording->operations, *binding);
  ++known.recording->users;
  return known.recording;
}

hipError_t Graphs::clone(hipGraph_t* out, hipGraph_t original) {
  TrackedGraph* const known = out != nullptr && active() ? known_.find(original) : nullptr;
  if (known != nullptr) {
    const auto copy = std::make_shared<TrackedGraph>();
    const LockGuard guard(known->lock);
    if (known->build != nullptr) finish_build(*known);
    // Of one that holds user objects the runtime makes a copy that holds them, too.
    if (known->exact() && known->recording != nullptr && known->real == nullptr && known->objects == nullptr) {
      copy->binding = known->binding;
      copy->recording = known->recording;
      copy->original = known->original;
      copy->parts = known->parts;
      const hipGraph_t handle = known_.add_deferred(copy);
      if (handle != nullptr) {
        static_cast<void>(calling_device());  // HIP before 7: any call's result is the last error
        const LockGuard templates(lock_);
        ++known->recording->users;
        *out = handle;
        return hipSuccess;
      }
    }
  }
  if (known != nullptr) note_refused("a copy of a graph that is real");
  const hipError_t failed = known_.read(&original, "hipGraphClone");
  return failed == hipSuccess ? next().hipGraphClone(out, original) : failed;
}

hipError_t Graphs::instantiate(hipGraphExec_t* out, hipGraph_t graph, unsigned long long flags,
                               NativeInstantiate native) {
  const TraceSpan traced(TraceKind::kInstantiate);
  const TimedCall timed;
  instantiates_.add();
  const bool plain = flags == 0 || flags == kInstantiateAutoFree;
  const bool may_serve = settings_.reuse && active() && out != nullptr;
  TrackedGraph* const known = known_.find(graph);
  hipError_t result = hipSuccess;
  if (known != nullptr && plain && may_serve && instantiate_known(out, *known, graph, flags, native, &result))
    return result;
  if (may_serve)
    note_left(!plain             ? "instantiated with flags or parameters of its own"
              : known == nullptr ? kUnknownGraphInstantiated
                                 : "a graph that the program has changed was instantiated");
  tell_trace("the program's own call", 0);
  result = known_.expose(&graph, known, "instantiated in a way of its own");
  return result == hipSuccess ? retry_with_room([&] { return native(graph, out); }) : result;
}

/// False: it has no recording, and nothing was done.
bool Graphs::instantiate_known(hipGraphExec_t* out, TrackedGraph& known, hipGraph_t graph, unsigned long long flags,
                               NativeInstantiate native, hipError_t* answer) {
  Binding binding;
  bool real = false, outlived = false;
  Objects objects;
  Recording* const recording = recording_of(known, &binding, &real, &outlived, &objects);
  if (recording == nullptr) return false;
  const int device = calling_device();
  look_for_completed_objects();
  auto exec = std::make_unique<ProgramExec>();
  exec->objects = objects;
  exec->recording = recording;
  exec->device = device;
  exec->flags = flags;
  exec->source = known.id;
  exec->binding = binding;
  hipError_t result = hipSuccess;
  bool avoided = false;
  if (recording->node_count != 0) {
    const auto from_program = [&](std::unique_ptr<Variant>* made) {
      auto variant = std::make_unique<Variant>();
      hipGraph_t source = graph;
      hipError_t failed = known_.read(&source, "instantiated");
      if (failed == hipSuccess)
        failed = pool().retry_after_trim(device,
                                         [&] { return made_private(native(source, &variant->exec), &variant->exec); });
      if (failed != hipSuccess) {
        variant->exec = nullptr;
        return failed;
      }
      variant->device = device;
      variant->source = known.id;
      variant->baked = binding;
      *made = std::move(variant);
      return hipSuccess;
    };
    const Variants::NativeVariant native_variant(from_program);
    Variants::Served served;
    // What a staged exec would be without staging could not be made any more (unstaged_execs.h).
    // Of a recording that verification has found to be wrong nothing is made, although a graph may still be virtual.
    const bool natively = (real || !recording->rebuildable.load(std::memory_order_acquire)) && objects == nullptr;
    result = outlived ? variants_.obtain_unstaged(*exec, binding, {natively ? &native_variant : nullptr}, &served)
                      : variants_.obtain(*exec, binding, {natively ? &native_variant : nullptr}, &served);
    exec->variant = served.variant;
    exec->way = served.way;
    avoided = !served.made;
  }
  void* const handle = result == hipSuccess ? execs_.add(exec.get()) : nullptr;
  if (handle == nullptr) {
    const LockGuard guard(lock_);
    --recording->users;
    if (exec->variant != nullptr) variants_.give(*exec->variant, nullptr);
    *answer = result == hipSuccess ? hipErrorOutOfMemory : result;
    return true;
  }
  if (real && !outlived && objects == nullptr) keep_real_path(*exec, graph);
  tell_trace(way_name(exec->way), recording->number);
  note_binding(*exec.release());
  *out = static_cast<hipGraphExec_t>(handle);
  Variants::Retired retired;
  const LockGuard guard(lock_);
  recording->statistics.instantiates_avoided += avoided ? 1 : 0;
  totals_.instantiates_avoided += avoided ? 1 : 0;
  variants_.evict(*recording, &retired);
  *answer = hipSuccess;
  return true;
}

bool Graphs::flags_of(hipGraphExec_t handle, unsigned long long* flags) const noexcept {
  const ProgramExec* const exec = execs_.find(handle);
  if (exec == nullptr) return false;
  *flags = exec->flags;
  return true;
}

hipError_t Graphs::read_exec(hipGraphExec_t* handle) const noexcept {
  const ProgramExec* const exec = execs_.find(*handle);
  if (exec == nullptr) return execs_.owns(*handle) ? refuse() : hipSuccess;
  *handle = exec->variant == nullptr ? nullptr : exec->variant->exec;
  return hipSuccess;
}

/// The exec works on the program's own memory: its variant stays until the launch is noted. Under the exec's lock.
inline void Graphs::begin_unstaged(ProgramExec& exec, StreamArgument stream, UnstagedLaunch* launch) {
  Variant& variant = *exec.variant;
  if (uses_tracked() && outstanding_uses().several(stream)) launch->written = what_is_written(exec);
  count_launch(exec);
  launch->variant = &variant;
  ++exec.launching;
  variant.under_way.store(variant.under_way.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (!std::exchange(variant.launched, true)) launch->first = exec.recording;
}

/// The runtime may call back or wait, so the exec is not locked. What the launch does may be the sign for another
/// thread to destroy or update the exec: it and the variant stay until the launch is noted.
inline hipError_t Graphs::launch_unstaged(ProgramExec& exec, StreamArgument stream, NativeExecCall native,
                                          const UnstagedLaunch& launch) {
  const hipGraphExec_t real = launch.variant->exec;
  const StreamKey key = stream_key(stream);  // may ask the runtime: before HIP 7 that would replace the launch's error
  const bool captured = in_open_capture(stream);
  hipError_t result;
  if (launch.first == nullptr) {
    result = launch_with_room(real, captured, native);
  } else {
    const CostTimer timer;
    result = launch_with_room(real, captured, native);
    if (result == hipSuccess) timer.stop(Cost::kFirstLaunchNode, launch.first->node_count, &launch.first->exec_costs);
  }
  if (launch.written != nullptr && result == hipSuccess) outstanding_uses().used(stream, *launch.written, nullptr);
  note_launched(exec, *launch.variant, key, plain_handle(stream), result);
  return result;
}

[[gnu::hot]] hipError_t Graphs::launch_selected(ProgramExec& exec, StreamArgument stream, NativeExecCall native) {
  UnstagedLaunch launch;
  {
    const LockGuard guard(exec.lock);
    if (exec.variant != nullptr && exec.variant->ring == nullptr && exec.before == nullptr && !exec.on_shadows)
        [[likely]]
      begin_unstaged(exec, stream, &launch);
  }
  if (launch.variant == nullptr) [[unlikely]] {
    hipError_t answer = hipSuccess;
    if (!choose_launch(exec, stream, native, &launch, &answer)) return answer;
  }
  return launch_unstaged(exec, stream, native, launch);
}

inline hipError_t Graphs::launch_program_exec(ProgramExec& exec, StreamArgument stream, NativeExecCall native) {
  launches_.add();
  if (exec.shared_seen.load(std::memory_order_relaxed) != SharedMemory::version()) [[unlikely]]
    if (const hipError_t result = leave_shared_memory(exec, stream); result != hipSuccess) return result;
  if (settings_.looks_at_launches) [[unlikely]] {
    if (settings_.check) look_for_stale(exec);
    if (settings_.verify.mode != Verify::Mode::kOff) return launch_verified(exec, stream, native);
  }
  if (exec.sets != nullptr) [[unlikely]]
    if (const hipError_t result = give_noted(exec); result != hipSuccess) return result;
  return launch_selected(exec, stream, native);
}

[[gnu::always_inline]] inline hipError_t Graphs::launch_now(hipGraphExec_t handle, StreamArgument stream,
                                                            NativeExecCall native) {
  const TimedCall timed(!std::exchange(t_step.launched, true));
  ProgramExec* const exec = execs_.find(handle);
  if (exec == nullptr && execs_.owns(handle)) return refuse();
  const hipError_t result = exec == nullptr ? launch_with_room(handle, in_open_capture(stream), native)
                                            : launch_program_exec(*exec, stream, native);
  // In a stream that is gone there is nothing, and to ask about it would replace the error.
  if (result != hipErrorContextIsDestroyed) stream_work().note_work(plain_handle(stream));
  if (exec == nullptr && result == hipSuccess && uses_tracked() && outstanding_uses().several(stream))
    outstanding_uses().used_unseen(stream);
  return result;
}

[[gnu::hot]] hipError_t Graphs::launch(hipGraphExec_t handle, StreamArgument stream, NativeExecCall native) {
  if (trace_on()) [[unlikely]]
    return launch_traced(handle, stream, native);
  return launch_now(handle, stream, native);
}

/// What serves it is told as it is before the launch: afterwards the exec may be gone.
[[gnu::cold, gnu::noinline]] hipError_t Graphs::launch_traced(hipGraphExec_t handle, StreamArgument stream,
                                                              NativeExecCall native) {
  const TraceSpan traced(TraceKind::kLaunch);
  ProgramExec* const exec = execs_.find(handle);
  tell_trace("the runtime's own exec", 0);
  if (exec != nullptr) {
    const LockGuard guard(exec->lock);
    if (exec->recording != nullptr) tell_trace(way_name(exec->way), exec->recording->number);
  }
  return launch_now(handle, stream, native);
}

/// Without host memory for it nothing is told.
void Graphs::look_for_stale(ProgramExec& exec) noexcept {
  try {
    std::vector<StaleAddress> all;
    {
      const LockGuard guard(exec.lock);
      if (exec.recording != nullptr) all = stale_addresses().look(*exec.recording, exec.binding, exec.allocations);
    }
    for (const StaleAddress& stale : all)
      if (stale_addresses().told(stale)) say_stale(stale);
  } catch (const std::bad_alloc&) {
  }
}

/// check: the exec has got all its addresses now. Where they cannot be kept, what was freed tells alone.
void Graphs::note_allocations(ProgramExec& exec) noexcept {
  const LockGuard guard(exec.lock);
  try {
    exec.allocations = StaleAddresses::allocations_of(exec.recording->operations, exec.binding);
  } catch (const std::bad_alloc&) {
    exec.allocations.clear();
  }
}

/// Memory was exported or opened since the exec was last launched. Where it is staged and names such memory, it works
/// on the program's own from here on. What was launched before still ends on its slots: nothing can be waited for here,
/// for its kernels may themselves wait for the process that has the handle now.
hipError_t Graphs::leave_shared_memory(ProgramExec& exec, StreamArgument stream) {
  const std::uint64_t version = SharedMemory::version();
  bool leave = false;
  {
    const LockGuard guard(exec.lock);
    leave = exec.recording != nullptr && exec.variant != nullptr && exec.variant->ring != nullptr &&
            reaches_shared_memory(exec.recording->operations, exec.binding);
    if (leave) {
      const LockGuard templates(lock_);
      exec.recording->not_staged = kSharedMemory;
    }
  }
  bool ordered = false;
  const hipError_t result = leave ? leave_ring(exec, stream_key(stream), plain_handle(stream), &ordered) : hipSuccess;
  if (result == hipSuccess) exec.shared_seen.store(version, std::memory_order_relaxed);
  return result;
}

/// Launches of an exec that is staged, that has nothing to do, or that comes behind what served it before. True: it
/// works on the program's own memory now, and the launch of it is begun. False: it is done, with this answer.
bool Graphs::choose_launch(ProgramExec& exec, StreamArgument stream, NativeExecCall native, UnstagedLaunch* launch,
                           hipError_t* answer) {
  const auto answered = [answer](hipError_t result) {
    *answer = result;
    return false;
  };
  const StreamKey key = stream_key(stream);
  const hipStream_t handle = plain_handle(stream);
  BackOff wait(settings_.ring_timeout);
  std::optional<NotedWait> noted;
  bool in_order = true, ordered = false;
  for (bool on_device = false, made_room = false; launch->variant == nullptr;) {
    bool in_capture = false, other_device = false, written_elsewhere = false, on_shadows = false, no_room = false;
    std::uint64_t graph = 0;
    {
      const LockGuard guard(exec.lock);
      if (exec.variant == nullptr) {
        // A graph without operations: nothing to run, and some runtimes crash on one (probe empty_graph_runs).
        const hipError_t judged = judge_stream(handle);
        if (judged == hipSuccess && StreamWork::is_null(handle)) stream_work().enter_null_stream();
        return answered(judged);
      }
      if (exec.before != nullptr) {
        // Rule 3: also behind what another variant still runs. Where the stream cannot be told, nothing waits (rule
        // 16).
        in_order = (exec.before->order_before(key, handle) || ordered) && in_order;
        exec.before.reset();
      }
      on_shadows = exec.on_shadows;
      if (on_shadows && exec.variant->ring == nullptr) return answered(hipErrorNotReady);
      in_capture = exec.variant->ring != nullptr && may_be_capturing(handle);
      other_device = exec.variant->ring != nullptr && !is_stream_of(exec.variant->plan->device(), handle);
      if (exec.variant->ring == nullptr) {
        begin_unstaged(exec, stream, launch);
      } else if (!in_capture && !other_device) {
        const SlotRing* const ring = exec.variant->ring.get();
        graph = exec.recording->number;
        const bool whole = uses_tracked() && !ring->whole().empty();
        written_elsewhere =
            whole && !ring->at_home() && !on_shadows && outstanding_uses().elsewhere(ring->whole(), stream, ring);
        const hipError_t pending = pending_error();
        hipError_t result = hipSuccess;
        bool replayed = false;
        if (written_elsewhere ||
            !launch_staged(exec, key, handle, native, on_device, wait.waited(), &replayed, &result)) {
          // It is served otherwise, or waits.
        } else if (result == hipErrorOutOfMemory && !replayed && !made_room) {
          no_room = true;
        } else if (result == hipErrorStreamCaptureInvalidated && !replayed && !on_shadows) {
          // A runtime that leaves a stream so when its capture has ended takes launches there, but no copies.
          clear_error(pending);
          in_capture = true;
        } else {
          // What it writes without a slot, because staging is open and not chosen, counts too.
          if (result == hipSuccess && uses_tracked() && outstanding_uses().several(stream))
            outstanding_uses().used(stream, *what_is_written(exec), ring);
          return answered(result);
        }
      }
    }
    if (no_room) [[unlikely]] {
      pool().make_room();
      made_room = true;
    } else if (in_capture || other_device || written_elsewhere) {
      // In a capture the runtime may run the launch at once and capture the copies, or the other way about. A ring's
      // events are its device's: none can come behind a launch in another one's stream.
      if (on_shadows) return answered(hipErrorNotReady);
      const hipError_t result = leave_ring(exec, key, handle, &ordered);
      if (result != hipSuccess) return answered(result);
    } else if (launch->variant == nullptr && !wait.again()) {
      if (on_shadows) return answered(hipErrorNotReady);
      on_device = !stop_waiting(exec, key, handle, &ordered);
    } else if (launch->variant == nullptr && !noted) {
      noted.emplace("a free slot set", graph);
    }
  }
  if (!in_order) [[unlikely]]
    log_once(LogLevel::kWarn, "launch out of order",
             "a launch could not be told to come behind an earlier one of its exec: one of their streams is captured");
  return true;
}

/// What an exec that is not staged may write to of buffers that other launches copy out whole. Under the exec's lock.
std::shared_ptr<const OutstandingUses::Bases> Graphs::what_is_written(ProgramExec& exec) {
  if (exec.written == nullptr) {
    auto bases = std::make_shared<OutstandingUses::Bases>();
    if (exec.recording != nullptr)
      wholly_staged(exec.recording->operations, exec.binding, bases.get());
    else
      bases->push_back(nullptr);  // the program's own: not known any more
    exec.written = std::move(bases);
  }
  return exec.written;
}

/// It has a number once it is enqueued: a wait of another thread before that says nothing of it.
[[gnu::hot]] void Graphs::note_launched(ProgramExec& exec, Variant& launched, StreamKey key, hipStream_t stream,
                                        hipError_t result) {
  bool last = false;
  {
    const LockGuard guard(exec.lock);
    if (result == hipSuccess)
      launched.launches.add(key, stream, next_launch());
    else
      launched.launches.add_failed(key, next_launch());  // before HIP 7 a call would replace the error
    launched.under_way.store(launched.under_way.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    last = --exec.launching == 0 && exec.destroyed;
    if (&launched != exec.variant) [[unlikely]] {
      // The exec was given another one meanwhile.
      const LockGuard templates(lock_);
      disown(launched);
    }
  }
  if (last) [[unlikely]]
    release(std::unique_ptr<ProgramExec>(&exec), nullptr);
}

/// A variant that its exec does not use any more is free, unless a launch of it is under way, at whose end it is. Under
/// lock_ and the exec's.
void Graphs::disown(Variant& variant) noexcept {
  if (variant.under_way.load(std::memory_order_acquire) == 0) variants_.give(variant, nullptr);
}

void Graphs::count_launch(ProgramExec& exec) noexcept {
  if (exec.recording != nullptr) exec.recording->launches.add(exec.way);
  g_launches_by_way.add(exec.way);
}

/// Copy in, replay, copy out, all in the program's stream (staging/slot_ring.h). Under the exec's lock; what is
/// enqueued here neither waits nor calls back. False: no set is free, nothing was enqueued.
bool Graphs::launch_staged(ProgramExec& exec, StreamKey key, hipStream_t stream, NativeExecCall native, bool on_device,
                           bool waited, bool* replayed, hipError_t* result) {
  RingCounts counts;
  bool busy = false;
  TraceSpan traced(TraceKind::kCopies);
  *result = exec.variant->ring->launch(key, stream, native, on_device, &counts, &busy, replayed);
  if (busy) traced.drop();
  tell_trace(counts.without_copies != 0 ? "nothing to copy" : "copied", exec.recording->number, counts.bytes);
  if (busy) return false;
  if (*result == hipSuccess || counts.submissions != 0)
    exec.variant->launches.add(key, stream, next_launch());
  else
    exec.variant->launches.add_failed(key, next_launch());
  count_launch(exec);
  const LockGuard guard(lock_);
  exec.recording->statistics.staged += counts;
  exec.recording->statistics.ring_waits += waited ? 1 : 0;
  return true;
}

/// The exec serves its holder without staging from now on, on the program's own memory. The one place where a launch
/// makes an exec. *ordered: the stream comes behind what the ring has launched.
hipError_t Graphs::leave_ring(ProgramExec& exec, StreamKey key, hipStream_t stream, bool* ordered) {
  if (stream_is_gone(stream)) return judge_stream(stream);
  Variants::Served own;
  hipError_t result = variants_.obtain_unstaged(exec, exec.binding, {}, &own);
  // Natively nothing is made here that could fail: what failed once is tried once more before the program sees it.
  if (result != hipSuccess) result = variants_.obtain_unstaged(exec, exec.binding, {}, &own);
  // What it names may be freed by now, or the recording not be trusted any more: it becomes the program's own.
  if (result != hipSuccess) {
    exec.touch("a staged exec could not be made without staging");
    return taint(exec);
  }
  Variant* ring = nullptr;
  {
    const LockGuard guard(exec.lock);
    if (exec.variant->ring == nullptr) {  // another launch was first
      const LockGuard templates(lock_);
      if (own.variant != exec.variant) disown(*own.variant);
      return hipSuccess;
    }
    {
      const LockGuard templates(lock_);  // another launch may be looking for an exec of its own
      ring = std::exchange(exec.variant, own.variant);
    }
    exec.way = own.way;
    ring->launches.seal();
    if (!ring->plan->overlap()) {
      exec.before = ring->launches.copy();
      // A ring can be followed where its last stream is captured now.
      const LastErrorScope last_error;
      *ordered = !may_be_capturing(stream) && ring->ring->order_behind_last(key, stream);
    }
  }
  const LockGuard guard(lock_);
  variants_.give(*ring, nullptr);
  return hipSuccess;
}

/// No slot set came free in time. False: the launch cannot do without.
bool Graphs::stop_waiting(ProgramExec& exec, StreamKey key, hipStream_t stream, bool* ordered) {
  const auto limit_ms = std::chrono::duration_cast<std::chrono::milliseconds>(settings_.ring_timeout).count();
  HeldRecording recording;
  {
    const LockGuard guard(exec.lock);
    if (exec.variant->ring == nullptr) return true;  // another launch was first
    recording = hold(*exec.recording);
  }
  const bool left = leave_ring(exec, key, stream, ordered) == hipSuccess;
  log_error("no slot set of a staged graph came free in %lld ms: %s", static_cast<long long>(limit_ms),
            left ? "it takes the program's own path from now on" : "no memory for the program's own path, so it waits");
  const LockGuard guard(lock_);
  ++(*recording).statistics.ring_timeouts;
  return left;
}

hipError_t Graphs::update(hipGraphExec_t handle, hipGraph_t graph, hipGraphNode_t* error_node,
                          hipGraphExecUpdateResult* result) {
  const TraceSpan traced(TraceKind::kUpdate);
  const TimedCall timed;
  ProgramExec* const exec = execs_.find(handle);
  TrackedGraph* const known = known_.find(graph);
  return known == nullptr && exec != nullptr && exec->recording == nullptr && !known_.gave_out(graph)
             ? update_unfollowed(*exec, graph, error_node, result)
             : update_found(handle, exec, graph, known, error_node, result);
}

/// exec, known: what the handles stand for; null: the runtime's own.
hipError_t Graphs::update_found(hipGraphExec_t handle, ProgramExec* exec, hipGraph_t graph, TrackedGraph* known,
                                hipGraphNode_t* error_node, hipGraphExecUpdateResult* result) {
  const bool plain = known == nullptr;
  Binding binding;
  NativeUpdate natively;
  natively.plain = plain;
  const char* why = exec == nullptr ? kUnknownExecUpdated : exec->touched() ? kTouchedExecUpdated : kUpdateTellsNothing;
  if (exec != nullptr && (exec->recording != nullptr || !exec->touched()) && error_node != nullptr &&
      result != nullptr) {
    updates_.add();
    bool real = false, outlived = false;
    Recording* const recording = plain ? nullptr : recording_of(*known, &binding, &real, &outlived);
    natively.recording = HeldRecording(recording);
    natively.binding = recording != nullptr && !outlived ? &binding : nullptr;
    const bool same_recording = recording != nullptr && recording == exec->recording;
    why = recording == nullptr    ? kUpdateByUnknown
          : recording->fills_rows ? "an update that sets a fill of several rows"
          : same_recording        ? "an update that must stay with its exec, or could not be served"
                                  : "an update by a graph of another recording, for the first time";
    UpdateBy by{graph, real};
    // clr's GraphMemsetNode::SetParams refuses them by a size that only pitched allocations have, and leaves what was
    // set before.
    const bool may_serve = recording != nullptr && !recording->fills_rows;
    if ((may_serve && same_recording &&
         (seeded_defect(Seeded::kUpdateIgnored) || rebind(*exec, binding, &by) == hipSuccess)) ||
        (may_serve && !same_recording && move_to(*exec, *recording, binding) == hipSuccess)) {
      if (real && !outlived && !by.native) keep_real_path(*exec, graph);
      *error_node = nullptr;
      *result = hipGraphExecUpdateSuccess;
      tell_trace(way_name(exec->way), exec->recording->number);
      static_cast<void>(calling_device());  // HIP before 7: any call's result is the last error
      {
        const LockGuard guard(lock_);
        totals_.updates_avoided += by.native ? 0 : 1;
        exec->recording->statistics.updates_avoided += by.native ? 0 : 1;
      }
      make_room_for_execs();
      return hipSuccess;
    }
  }
  if (settings_.reuse && active()) note_left(why);
  tell_trace(why, 0);
  hipError_t failed = known_.read(&graph, "an exec is updated by it");
  if (failed == hipSuccess) {
    if (exec == nullptr) failed = expose_exec(&handle, nullptr, why);
    natively.graph = graph;
    if (exec != nullptr)
      failed = update_natively(*exec, std::move(natively), error_node, result);
    else if (failed == hipSuccess)
      failed = retry_with_room([&] { return next().hipGraphExecUpdate(handle, graph, error_node, result); });
  }
  if (failed != hipSuccess && error_node != nullptr && *error_node != nullptr)
    *error_node = known_.as_program_knows(*error_node);
  return failed;
}

/// The exec is its own, and nobody has followed the capture that the graph is of: there is nothing to compare.
hipError_t Graphs::update_unfollowed(ProgramExec& exec, hipGraph_t graph, hipGraphNode_t* error_node,
                                     hipGraphExecUpdateResult* result) {
  tell_trace(kUpdateByUnknown, 0);
  const hipError_t failed =
      retry_with_room([&] { return next().hipGraphExecUpdate(exec.own->exec, graph, error_node, result); });
  updated_unfollowed(exec, error_node, result, failed);
  return failed;
}

[[gnu::hot]] void Graphs::updated_unfollowed(ProgramExec& exec, hipGraphNode_t* error_node,
                                             const hipGraphExecUpdateResult* result, hipError_t failed) {
  const bool tells = error_node != nullptr && result != nullptr;
  if (tells && !exec.touched()) updates_.add();
  if (settings_.reuse && active())
    note_left(exec.touched() ? kTouchedExecUpdated : tells ? kUpdateByUnknown : kUpdateTellsNothing);
  if (exec.last_update) exec.last_update = HeldRecording();
  if (failed == hipSuccess && exec.made_for_children < ProgramExec::kMostForChildren) return;
  exec.touch(failed != hipSuccess ? kUpdateRefused : kOtherChildGraphs);
  if (failed != hipSuccess && error_node != nullptr && *error_node != nullptr)
    *error_node = known_.as_program_knows(*error_node);
}

/// By the program's own call, on the exec that is its own.
hipError_t Graphs::update_natively(ProgramExec& exec, NativeUpdate by, hipGraphNode_t* error_node,
                                   hipGraphExecUpdateResult* result) {
  const std::uint64_t freed = memory_freed();
  HeldRecording from;
  if (exec.recording != nullptr) {
    from = hold(*exec.recording);
    const hipError_t failed = taint(exec);
    if (failed != hipSuccess) {
      exec.touch("no exec of its own could be made");
      return failed;
    }
  } else {
    from = std::move(exec.last_update);
  }
  exec.last_update = HeldRecording();
  const hipError_t failed =
      retry_with_room([&] { return next().hipGraphExecUpdate(exec.own->exec, by.graph, error_node, result); });
  if (failed != hipSuccess || (!by.recording && !by.plain) || exec.made_for_children >= ProgramExec::kMostForChildren) {
    exec.touch(failed != hipSuccess ? kUpdateRefused
               : !by.recording      ? "an update by a graph that the program has changed"
                                    : kOtherChildGraphs);
  } else if (may_serve_again(exec, by)) {
    serve_again(exec, std::move(by), freed);
  } else if (!exec.touched() && !from) {
    exec.last_update = std::move(by.recording);  // what it was before is not known, but what it does now may be
  } else if (!exec.touched() && by.recording) {
    exec.updates.note(std::move(from), hold(*by.recording));
    exec.last_update = std::move(by.recording);
  }
  return failed;
}

/// Whether the exec, which the runtime has just updated by this graph, is of the graph's recording again: graphs that
/// are not known have been in it meanwhile, but none of another recording. Not where execs can be patched: move_to()
/// gives it one of those.
bool Graphs::may_serve_again(const ProgramExec& exec, const NativeUpdate& by) noexcept {
  if (exec.touched() || by.binding == nullptr || !exec.updates.none() || exec.own == nullptr) return false;
  const Recording& recording = *by.recording;
  if (exec.own->made_for != recording.number || exec.own->broken || !recording.children.empty() || recording.fills_rows)
    return false;
  const LockGuard guard(lock_);
  return recording.rebuildable.load(std::memory_order_acquire) && !recording.outdated &&
         !Variants::updates_are_exact(recording);
}

/// Its next updates are compared with this binding again. It serves nobody else, as any that was updated so.
void Graphs::serve_again(ProgramExec& exec, NativeUpdate by, std::uint64_t memory_freed_before) {
  {
    const LockGuard guard(exec.lock);
    const LockGuard templates(lock_);
    exec.recording = by.recording.release();
    exec.variant = variants_.take_in(*exec.recording, std::move(exec.own), &exec);
    exec.binding = *by.binding;
    exec.written = nullptr;
    exec.way = Way::kUpdate;
    exec.set_by_program = true;
    variants_.updated(*exec.recording, *exec.variant, exec.binding, memory_freed_before);
  }
  note_binding(exec);
}

/// Makes the exec one of another recording, as an update by the program has done before.
hipError_t Graphs::move_to(ProgramExec& exec, Recording& recording, const Binding& binding) {
  const Recording* const from = exec.recording != nullptr ? exec.recording
                                : exec.last_update        ? &*exec.last_update
                                                          : nullptr;
  if (exec.touched() || exec.own == nullptr || from == nullptr || recording.node_count == 0 || must_stay(exec))
    return hipErrorNotSupported;
  if (from != &recording && !exec.updates.known(*from, recording)) return hipErrorNotSupported;
  const bool has_children = !recording.children.empty();
  if (has_children && exec.made_for_children >= ProgramExec::kMostForChildren) return hipErrorNotSupported;
  Recording* const before = std::exchange(exec.recording, &recording);
  Variants::Served served;
  hipError_t result = variants_.obtain(exec, binding, {nullptr, true}, &served);
  if (result == hipSuccess && served.way == Way::kUpdate) result = hipErrorNotSupported;
  if (result != hipSuccess) {
    exec.recording = before;
    return result;
  }
  exec.made_for_children += has_children && served.made ? 1 : 0;
  {
    const LockGuard guard(lock_);
    ++recording.users;
    if (before != nullptr) --before->users;
    recording.statistics.instead_of_update += served.made ? 1 : 0;
  }
  exec.last_update = HeldRecording();
  return switch_to(exec, served, binding);
}

HeldRecording Graphs::hold(Recording& recording) noexcept {
  const LockGuard guard(lock_);
  ++recording.users;
  return HeldRecording(&recording);
}

/// Makes an exec that was the program's own before do what the binding says.
hipError_t Graphs::bring_up_to_date(ProgramExec& exec, Variant& own) {
  hipGraph_t graph = nullptr;
  std::vector<hipGraphNode_t> nodes;
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  const SavedDevice device;
  device.set(exec.device);
  hipError_t result = build_graph(exec.recording->operations, exec.binding, &graph, &nodes);
  if (result != hipSuccess) return result;
  hipGraphNode_t failed = nullptr;
  hipGraphExecUpdateResult told{};
  result = retry_with_room([&] { return next().hipGraphExecUpdate(own.exec, graph, &failed, &told); });
  static_cast<void>(next().hipGraphDestroy(no_longer_private(graph)));
  return result;
}

/// Whether the exec must be launched as the variant it is: launches of that may still run on a stream that is being
/// captured, so that nothing else can be told to come behind them. Launches of one exec the runtime orders itself.
bool Graphs::must_stay(ProgramExec& exec) {
  if (!captures_open() || exec.variant == nullptr || exec.variant->ring != nullptr || exec.variant->broken)
    return false;
  const LockGuard guard(exec.lock);
  return !exec.variant->launches.seal();
}

/// Makes the exec serve another binding. In flight launches keep the old one. `by`: the program's update; null: it set
/// a node. hipErrorNotSupported: the program's own call must do it.
hipError_t Graphs::rebind(ProgramExec& exec, const Binding& binding, UpdateBy* by) {
  if (exec.variant == nullptr) return hipSuccess;
  if (exec.sets != nullptr)
    if (const hipError_t result = give_noted(exec); result != hipSuccess) return result;
  // A ring's copies may have outlived memory, whatever the graph holds: it looks for itself.
  if (equal(exec.binding, binding) && exec.variant->ring == nullptr &&
      !Variants::outlived_memory(*exec.recording, *exec.variant)) {
    if (settings_.check) note_allocations(exec);
    return hipSuccess;
  }
  const bool may_update = by != nullptr && exec.variant->ring == nullptr && !exec.variant->broken;
  if (must_stay(exec)) {
    forget_sets(exec);
    return may_update ? update_own(exec, binding, by) : hipErrorNotSupported;
  }
  const bool other_child = !may_update && child_differs(*exec.recording, exec.binding, binding);
  if (other_child && exec.made_for_children >= ProgramExec::kMostForChildren) return hipErrorNotSupported;
  Variants::Served served;
  const hipError_t result = variants_.obtain(exec, binding, {nullptr, may_update}, &served);
  if (result != hipSuccess) return result;
  forget_sets(exec);
  if (served.way == Way::kUpdate) return update_own(exec, binding, by);
  exec.made_for_children += other_child && served.made ? 1 : 0;
  if (served.made) {
    const LockGuard guard(lock_);
    ++exec.recording->statistics.instead_of_update;
  }
  return switch_to(exec, served, binding);
}

/// By the program's own call, on the variant that the exec has: nobody else uses it while the exec lives (rule 20), and
/// launches before and after keep their order because it is the same exec, in flight or not (rule 3). The runtime sees
/// a graph that is made as the variant's was. What it then does is known where the runtime updates all of it correctly;
/// else the variant goes with its holder. A failure is judged by the caller, which makes the call once more with the
/// program's graph: that leaves of the exec and of the error what it would have left of them natively.
hipError_t Graphs::update_own(ProgramExec& exec, const Binding& binding, UpdateBy* by) {
  Recording& recording = *exec.recording;
  Variant& own = *exec.variant;
  const std::uint64_t freed = memory_freed();
  const hipError_t pending = pending_error();
  const auto call = [&](hipGraph_t graph) {
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult told{};
    return retry_with_room([&] { return next().hipGraphExecUpdate(own.exec, graph, &node, &told); });
  };
  make_argument_room(calling_device(), own.patched_bytes, recording.argument_bytes, recording.argument_bytes);
  hipError_t result;
  const bool build = !by->real && own.graph != nullptr;
  if (build) {
    result = with_graph(recording.operations, binding, [&](hipGraph_t graph, const auto&) { return call(graph); });
  } else {
    hipGraph_t graph = by->graph;
    result = known_.read(&graph, "an exec is updated by it");
    if (result == hipSuccess) result = call(graph);
  }
  if (result != hipSuccess) {
    clear_error(pending);
    return result;
  }
  by->native = true;
  exec.real_path.reset();
  {
    const LockGuard guard(exec.lock);
    exec.binding = binding;
    exec.written = nullptr;
    exec.way = Way::kUpdate;
    exec.set_by_program = true;
    const LockGuard templates(lock_);
    variants_.updated(recording, own, binding, freed);
    recording.statistics.built_for_update += build ? 1 : 0;
  }
  note_binding(exec);
  return hipSuccess;
}

void Graphs::evict_due() {
  Variants::Retired retired;
  const LockGuard guard(lock_);
  variants_.evict_due(&retired);
}

void Graphs::drop_free_execs_of(const void* place) {
  {
    const LockGuard guard(lock_);
    for (const auto& recording : recordings_) {
      if (recording->place != place) continue;
      for (std::size_t i = 0; i < recording->free_variants; ++i) recording->variants[i]->keep = false;
    }
  }
  evict_due();
}

hipError_t Graphs::switch_to(ProgramExec& exec, const Variants::Served& served, const Binding& binding) {
  Variant* const old = exec.variant;
  exec.real_path.reset();
  {
    const LockGuard guard(exec.lock);
    exec.binding = binding;
    exec.written = nullptr;
    exec.way = served.way;
    exec.set_by_program = false;
    if (served.variant != old) {
      old->launches.seal();
      // Not launched since the last change: it stays behind what came before that.
      if (auto launched = old->launches.copy()) exec.before = std::move(launched);
      const LockGuard templates(lock_);
      exec.variant = served.variant;
      disown(*old);
    }  // else staged: only the program's buffers moved
  }
  note_binding(exec);
  return hipSuccess;
}

/// The exec has this binding from now on, and is staged or not.
void Graphs::note_binding(ProgramExec& exec) {
  if (settings_.check) note_allocations(exec);
  if (exec.variant != nullptr && exec.variant->ring != nullptr)
    unstaged_.bound(&exec.unstaged, *exec.recording, exec.device, exec.binding);
  else
    unstaged_.take(&exec.unstaged);
}

hipError_t Graphs::destroy_exec(hipGraphExec_t handle) {
  const TimedCall timed;
  if (!execs_.owns(handle)) {
    unknown_ends();
    const CallbackScope callbacks;
    return stream_work().destroy_exec(handle);
  }
  std::unique_ptr<ProgramExec> exec(execs_.find(handle));
  if (exec == nullptr) return refuse();
  static_cast<void>(calling_device());  // HIP before 7: any call's result is the last error
  if (seeded_defect(Seeded::kDestroyedExecServes)) {
    static_cast<void>(exec.release());
    return hipSuccess;
  }
  execs_.remove(handle);
  {
    const LockGuard guard(exec->lock);
    exec->destroyed = true;
    if (exec->launching != 0) {
      static_cast<void>(exec.release());  // it goes with the launch
      return hipSuccess;
    }
    if ((exec->recording != nullptr || exec->objects != nullptr) && exec->variant != nullptr)
      exec->variant->launches.seal();
  }
  Variants::Retired retired;
  release(std::move(exec), &retired);
  if (tree_over_limit()) [[unlikely]] {
    known_.end_builds("too many recordings");
    end_walks("too many recordings");
  }
  return hipSuccess;
}

/// What it was instantiated from may hold user objects: they stay until its launches are complete.
void Graphs::let_go_of_objects(ProgramExec& exec) {
  Launches launches;
  if (exec.variant != nullptr) launches.push_back(exec.variant->launches.copy());
  launches.push_back(std::move(exec.before));
  graphpool::let_go_of_objects(std::move(exec.objects), std::move(launches));
}

/// The exec goes; its variant is free. With `retired`, so does what is too much: not in a launch (rule 15).
void Graphs::release(std::unique_ptr<ProgramExec> exec, Variants::Retired* retired) {
  if (exec->objects != nullptr) let_go_of_objects(*exec);
  if (exec->recording == nullptr) return;  // tainted: its own exec goes with it
  const std::unique_ptr<Variant> unstaged = unstaged_.take(&exec->unstaged);
  const LockGuard guard(lock_);
  --exec->recording->users;
  if (exec->variant != nullptr) {
    variants_.give(*exec->variant, nullptr);
    if (exec->variant->unsure || exec->variant->broken) {
      exec->variant->keep = false;
      if (retired != nullptr) retired->push_back(variants_.remove(*exec->recording, exec->variant));
    }
  }
  if (retired == nullptr) return;
  variants_.evict(*exec->recording, retired);
  trim_recordings(retired);
}

hipError_t Graphs::expose_exec(hipGraphExec_t* handle, hipGraphNode_t* node, const char* why) {
  ProgramExec* const exec = execs_.find(*handle);
  if (exec == nullptr) {
    if (execs_.owns(*handle)) return refuse();
    return node == nullptr ? hipSuccess : known_.read_node(node, "an exec's node is named by it");
  }
  if (seeded_defect(Seeded::kTaintedServesOn) && node != nullptr && exec->recording != nullptr &&
      exec->variant != nullptr) {
    const NodeRef named = known_.find_node(*node);
    *handle = exec->variant->exec;
    if (named.index < exec->variant->nodes.size()) *node = exec->variant->nodes[named.index];
    return hipSuccess;
  }
  if (exec->recording != nullptr) {
    const hipError_t result = taint(*exec);
    if (result != hipSuccess) return result;
  }
  exec->touch(why);
  *handle = exec->own->exec;
  if (node == nullptr) return hipSuccess;
  const NodeRef named = known_.find_node(*node);
  if (named.graph != nullptr && named.graph->id == exec->source && named.index < exec->own->nodes.size()) {
    *node = exec->own->nodes[named.index];
    return hipSuccess;
  }
  return known_.read_node(node, "an exec's node is named by it");
}

bool Graphs::is_outdated(const Recording& recording) noexcept {
  const LockGuard guard(lock_);
  return recording.outdated;
}

/// Gives the exec a variant that nobody else will ever use, made from a graph of our own so that its nodes are known,
/// unless it must stay what it is.
hipError_t Graphs::taint(ProgramExec& exec) {
  if (exec.sets != nullptr)
    if (const hipError_t result = give_noted(exec); result != hipSuccess) return result;
  forget_sets(exec);
  std::unique_ptr<Variant> own, unstaged = unstaged_.take(&exec.unstaged);
  std::unique_ptr<Variant> former = std::move(exec.own);
  const bool stays = must_stay(exec);
  if (former != nullptr && !stays && bring_up_to_date(exec, *former) == hipSuccess)
    own = std::move(former);
  else if (former != nullptr)
    exec.source = 0;  // nobody has the program's nodes any more
  const bool unfit = exec.variant == nullptr || exec.variant->ring != nullptr || exec.variant->broken;
  if (own != nullptr) {
    // It has been the program's own before.
  } else if (unstaged != nullptr && equal(unstaged->baked, exec.binding)) {
    own = std::move(unstaged);  // made while what it names was there
  } else if (unfit || (exec.variant->graph == nullptr && exec.variant->source != exec.source && !stays)) {
    const LastErrorScope last_error;
    // What it was made over, or its functions, may be gone by now, so that it cannot be built again. Then it goes out
    // as it is: its nodes are the program's own.
    const hipError_t result = is_outdated(*exec.recording)
                                  ? hipErrorNotSupported
                                  : variants_.build(*exec.recording, exec.binding, exec.device, &own);
    if (own == nullptr && result != hipSuccess && unfit) {
      note_binding(exec);
      return result;
    }
  }
  const LockGuard exec_guard(exec.lock);
  if (exec.variant != nullptr && own != nullptr) {
    exec.variant->launches.seal();
    if (auto launched = exec.variant->launches.copy()) exec.before = std::move(launched);
  }
  const LockGuard guard(lock_);
  if (own == nullptr)
    own = variants_.remove(*exec.recording, exec.variant);
  else if (exec.variant != nullptr)
    disown(*exec.variant);
  exec.own = std::move(own);
  exec.variant = exec.own.get();
  --exec.recording->users;
  exec.recording = nullptr;
  exec.written = nullptr;
  return hipSuccess;
}

void Graphs::memory_leaves(const void* address, std::size_t bytes, const char* why) {
  known_.memory_leaves(address, bytes, why);
  unstaged_.memory_leaves(address, bytes);
}

void Graphs::module_leaves(OperationTest names, OperationTest gone, const char* why) {
  known_.make_real_with(names, why);
  unstaged_.make_with(names);
  Variants::Retired retired;  // destroyed before the functions are gone
  const LockGuard guard(lock_);
  for (const auto& recording : recordings_) {
    const auto& operations = recording->operations;
    if (recording->outdated ||
        std::none_of(operations.begin(), operations.end(), [&](const Operation& each) { return holds(each, gone); }))
      continue;
    recording->outdated = true;
    ++outdated_;
    retired.push_back(std::move(recording->first));
    for (std::size_t i = recording->variants.size(); i-- > 0;) {
      Variant* const variant = recording->variants[i].get();
      if (variant->owner == nullptr && variant->under_way.load(std::memory_order_acquire) == 0)
        retired.push_back(variants_.remove(*recording, variant));
    }
  }
  drop_outdated(&retired);
}

void Graphs::device_reset(int device) noexcept {
  launches_device_reset(device);
  g_private_handles.forget_all();
  let_go_of_graphs(false);
  // What the runtime made on the device is gone with it: forget it without destroying.
  const LockGuard guard(lock_);
  variants_.device_reset(device);
}

bool Graphs::reclaim(int device) noexcept { return variants_.reclaim(device); }

Graphs::Totals Graphs::totals() const noexcept {
  const LockGuard guard(lock_);
  Totals totals = totals_;
  totals.templates = recordings_.size();
  for (const auto& recording : recordings_) {
    totals.variants += recording->variants.size();
    totals.saved_ns += saved_ns(*recording);
  }
  totals.instantiates = instantiates_.load() + g_passed_instantiates.load();
  totals.updates = updates_.load();
  totals.launches = launches_.load();
  totals.refused = refusals_.sum();
  const char* why = nullptr;
  totals.refused += captures_left_alone(0, &why) + captures_left_alone(1, &why);
  return totals;
}

/// Under lock_.
Graphs::RecordingReport Graphs::report_of(const Recording& recording) {
  RecordingReport report{};
  report.number = recording.number;
  report.operations = recording.node_count;
  report.variants = recording.variants.size();
  report.host_bytes = recording.host_bytes;
  report.volatile_words = recording.history.volatile_words();
  report.statistics = recording.statistics;
  for (std::size_t i = 0; i < kWays; ++i) report.launches[i] = recording.launches.count(static_cast<Way>(i));
  for (const char* const kernel : recording.kernels) {
    if (kernel == nullptr) continue;
    if (report.first_kernel == nullptr) report.first_kernel = kernel;
    report.last_kernel = kernel;
  }
  report.other_moves = recording.moved.others();
  report.saved_ns = saved_ns(recording);
  report.not_staged = recording.not_staged;
  report.staging_open = recording.staging_open();
  report.staging_chosen = recording.stage_choice.staged();
  report.staging_changes = recording.stage_choice.changes();
  for (const MovedOperand& operand : recording.moved.operands()) {
    const Signature& signature = recording.operations[operand.operation].signature;
    const bool named = operand.operation < recording.kernels.size();
    report.moved.push_back(
        {operand, kind_name(signature.kind), named ? recording.kernels[operand.operation] : nullptr});
  }
  for (const auto& variant : recording.variants) {
    report.device_bytes += variant->device_bytes;
    if (variant->ring == nullptr) continue;
    report.slot_sets += variant->ring->sets();
    report.slots += variant->ring->slots();
    report.slot_bytes += variant->ring->slot_bytes();
  }
  return report;
}

std::vector<Graphs::RecordingReport> Graphs::templates() const {
  const LockGuard guard(lock_);
  std::vector<RecordingReport> reports;
  for (const auto& recording : recordings_) reports.push_back(report_of(*recording));
  reports.insert(reports.end(), dropped_.begin(), dropped_.end());
  return reports;
}

std::vector<Graphs::ExecMemory> Graphs::exec_memory_held() const {
  const LockGuard guard(lock_);
  std::vector<ExecMemory> all;
  for (const int device : variants_.devices())
    all.push_back({device, variants_.held_bytes(device), variants_.peak_bytes(device)});
  return all;
}

Reasons Graphs::refusals() const {
  Reasons all = refusals_.all();
  for (const std::size_t reason : {0, 1}) {
    const char* why = nullptr;
    const std::uint64_t count = captures_left_alone(reason, &why);
    if (count != 0) all.emplace_back(why, count);
  }
  return all;
}

Reasons Graphs::left_to_runtime() const {
  Reasons all = left_to_runtime_.all();
  const auto add = [&all](const char* why, std::uint64_t times) {
    if (times == 0) return;
    const auto found = std::find_if(all.begin(), all.end(), [why](const auto& reason) { return reason.first == why; });
    if (found == all.end())
      all.emplace_back(why, times);
    else
      found->second += times;
  };
  if (settings_.reuse) {
    add(kUnknownGraphInstantiated, g_passed_instantiates.load());
    add(kUnknownExecUpdated, g_passed_updates.load());
  }
  return all;
}

}  // namespace graphpool
