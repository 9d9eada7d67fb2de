// generic_hooks.cpp: makes the bodies that a row's effect says in full.
//
// GraphRead and the like take the row's own parameter names, so a row and its body cannot disagree.
#include "hooks/bodies.h"
#include "shim/capture/capture.h"
#include "shim/capture/momentary_streams.h"
#include "shim/graphs/epochs.h"
#include "shim/graphs/graphs.h"
#include "shim/hip/process_policy.h"
#include "shim/memory/copy_params.h"
#include "shim/memory/device_memory.h"
#include "shim/process/engine.h"
#include "shim/streams/stream_work.h"
#include "shim/verify/stale_addresses.h"

namespace graphpool::hooks {
namespace {

/// Bytes from the first to behind the last of a box whose slices have as many rows as its memory says.
size_t box(const hipPitchedPtr& memory, const hipExtent& extent) noexcept {
  return extent.height == 0 || extent.depth == 0
             ? 0
             : pitched_bytes(memory.pitch, extent.width, memory.ysize * (extent.depth - 1) + extent.height);
}

/// Replaces what the runtime must refuse as an operand; returns the stream the work is in.
template <typename Stream, typename Dst>
Stream operands(Stream stream, Dst*& dst, size_t dst_bytes) noexcept {
  dst = address_guard().operand(dst, dst_bytes);
  return stream;
}
template <typename Stream, typename Dst, typename Src>
Stream operands(Stream stream, Dst*& dst, size_t dst_bytes, Src*& src, size_t src_bytes) noexcept {
  dst = address_guard().operand(dst, dst_bytes);
  src = address_guard().operand(src, src_bytes);
  return stream;
}
template <typename Stream, typename Value>
Stream operands(Stream stream, Value*& value, ValueBytes bytes) noexcept {
  value = address_guard().value_operand(value, bytes.bytes);
  return stream;
}
template <typename Stream, typename Params>
Stream operands(Stream stream, const Params*& params, ParamsCopy& copy) noexcept {
  params = checked_params(params, &copy);
  return stream;
}
hipStream_t operands(hipStream_t stream) noexcept { return stream; }

/// Replaces the memory that a question names by the memory that the runtime shall see, and returns that.
template <typename Pointer>
const void* name_range(Pointer*& memory, size_t bytes) noexcept {
  Pointer* const seen = address_guard().seen_by_hip(memory);
  return memory = seen == memory ? address_guard().operand(memory, bytes) : seen;
}
StreamArgument batch_operands(hipStream_t stream, MemoryOperation*& operations, unsigned count,
                              std::vector<MemoryOperation>& checked) {
  operations = checked_batch(operations, count, &checked);
  return {stream, false};
}

/// A call about graphs, in the form the runtime shall see. Each function takes the call's arguments by reference, and
/// puts the real handles and checked operands into them, which live as long as the object. It returns hipSuccess, or
/// what the call answers without being forwarded. Operands: `memory, bytes`, or the structure that they are in; `batch`
/// marks a structure of memory operations, which has no type of its own.
enum Batch { batch };
class GraphCall {
 public:
  explicit GraphCall(const char* name) noexcept : name_(name) {}
  GraphCall(const GraphCall&) = delete;
  GraphCall& operator=(const GraphCall&) = delete;

  hipError_t graph_read(hipGraph_t& graph) { return graphs().tracked.read(&graph, name_); }
  hipError_t graph_change(hipGraph_t& graph) { return graphs().tracked.expose(&graph, name_); }
  template <typename... Operands>
  hipError_t graph_add(hipGraph_t& graph, const hipGraphNode_t*& dependencies, size_t count, Operands&&... operands) {
    check(operands...);
    const hipError_t failed = graph_change(graph);
    return failed == hipSuccess ? graphs().nodes.read_all(&dependencies, count, &nodes_[0], name_) : failed;
  }
  hipError_t graph_edges(hipGraph_t& graph, const hipGraphNode_t*& from, const hipGraphNode_t*& to, size_t count) {
    const hipError_t failed = graph_add(graph, from, count);
    return failed == hipSuccess ? graphs().nodes.read_all(&to, count, &nodes_[1], name_) : failed;
  }
  hipError_t node_read(hipGraphNode_t& node) { return graphs().nodes.read(&node, name_); }
  template <typename... Operands>
  hipError_t node_change(hipGraphNode_t& node, Operands&&... operands) {
    check(operands...);
    return failed_ == hipSuccess ? graphs().nodes.expose(&node, name_) : failed_;
  }
  template <typename... Operands>
  hipError_t exec_change(hipGraphExec_t& exec, hipGraphNode_t& node, Operands&&... operands) {
    check(operands...);
    return failed_ == hipSuccess ? graphs().own.expose(&exec, &node, name_) : failed_;
  }

 private:
  static void check() noexcept {}
  template <typename T>
  static void check(T*& memory, size_t bytes) noexcept {
    memory = address_guard().operand(memory, bytes);
  }
  void check(const void*& params) {
    params = checked_node(params, &copy_);
    failed_ = graphs().tracked.read_child(&params, &copy_.node);
  }
  void check(const void*& params, Batch) { params = checked_operations(params, &copy_, &operations_); }
  void check(void*& params) {
    const void* checked = params;
    check(checked);
    params = const_cast<void*>(checked);  // the program's own or the copy
  }

  const char* name_;
  hipError_t failed_ = hipSuccess;
  std::vector<hipGraphNode_t> nodes_[2];
  ParamsCopy copy_;
  std::vector<MemoryOperation> operations_;
};

/// Makes a call that may leave work in the stream, a null stream or the thread's own, and that a capture forbids.
template <typename Forward>
hipError_t null_work(hipStream_t stream, Forward&& forward) {
  const hipError_t result = retry_with_room(forward);
  work_counts().note_work(stream);
  if (captures_open()) note_capture_doubt();
  return result;
}

/// Marks memory so that it is not kept: its next owner must not find what some calls set for it. (Not a part of a
/// chunk, which would be out of use for good.)
template <EntryId kEntry>
void mark(const void* memory) noexcept {
  if constexpr (kEntry == EntryId::hipMemAdvise || kEntry == EntryId::hipMemAdvise_v2 ||
                kEntry == EntryId::hipPointerSetAttribute) {
    const Block* const block = block_table().find(memory);
    if (block != nullptr && block->backing == BlockBacking::kClassic) (void)blocks().mark_exported(memory);
  }
}

/// `peer`: the device whose memory others may access if the call succeeds; -1: all devices.
template <typename Forward>
hipError_t enable_peer(int peer, Forward&& forward) {
  const hipError_t result = change_settings(forward);
  if (result == hipSuccess) device_memory().peers_enabled(peer);
  if (result == hipSuccess && policy().graph.check) stale_addresses().peer_enabled(current_device(), peer);
  return result;
}

}  // namespace

// Each effect names the macro that makes the body, and the parameters it is about.
#define GP_EFFECT_Plain (NOTHING, )
#define GP_EFFECT_Quiet (NOTHING, )
#define GP_EFFECT_Stream (NOTHING, )
#define GP_EFFECT_Settings (SETTINGS, )
#define GP_EFFECT_EnablePeer(peer) (ENABLE_PEER, peer)
#define GP_EFFECT_Setting(attribute, value) \
  (SETTING, (static_cast<std::uint64_t>(attribute), static_cast<std::uint64_t>(value)))
#define GP_EFFECT_FunctionSetting(function, attribute, value) \
  (FUNCTION_SETTING, (function, static_cast<std::uint64_t>(attribute), static_cast<std::uint64_t>(value)))
#define GP_EFFECT_KernelSetting(kernel, device, attribute, value) \
  (KERNEL_SETTING,                                                \
   (kernel, KernelSetting{static_cast<std::uint32_t>(attribute), device}, static_cast<std::uint64_t>(value)))
#define GP_EFFECT_Asks (ASKS, )
#define GP_EFFECT_QuietlyAsks (QUIETLY_ASKS, )
#define GP_EFFECT_StreamWork(stream) (STREAM_WORK, (stream, false))
#define GP_EFFECT_StreamWorkSpt(stream) (STREAM_WORK, (stream, true))
#define GP_EFFECT_GraphRead(graph) (GRAPHS, graph_read(graph))
#define GP_EFFECT_GraphChange(graph) (GRAPHS, graph_change(graph))
#define GP_EFFECT_GraphAdd(...) (GRAPHS, graph_add(__VA_ARGS__))
#define GP_EFFECT_GraphEdges(graph, from, to, count) (GRAPHS, graph_edges(graph, from, to, count))
#define GP_EFFECT_NodeRead(node) (GRAPHS, node_read(node))
#define GP_EFFECT_NodeChange(...) (GRAPHS, node_change(__VA_ARGS__))
#define GP_EFFECT_ExecChange(...) (GRAPHS, exec_change(__VA_ARGS__))
#define GP_EFFECT_Memory (MEMORY, )
#define GP_EFFECT_QuietMemory (QUIET_MEMORY, )
#define GP_EFFECT_Names(pointer) (NAMES, pointer)
#define GP_EFFECT_NamesRange(pointer, bytes) (NAMES_RANGE, (pointer, bytes))
#define GP_EFFECT_NullWork (TRANSFER, (nullptr))
#define GP_EFFECT_NullWorkSpt (TRANSFER, (hipStreamPerThread))
#define GP_EFFECT_Copy(dst, src, bytes) (TRANSFER, (nullptr, dst, bytes, src, bytes))
#define GP_EFFECT_CopySpt(dst, src, bytes) (TRANSFER, (hipStreamPerThread, dst, bytes, src, bytes))
#define GP_EFFECT_Copy2D(dst, dst_pitch, src, src_pitch, width, height) \
  (TRANSFER, (nullptr, dst, pitched_bytes(dst_pitch, width, height), src, pitched_bytes(src_pitch, width, height)))
#define GP_EFFECT_Copy2DSpt(dst, dst_pitch, src, src_pitch, width, height) \
  (TRANSFER,                                                               \
   (hipStreamPerThread, dst, pitched_bytes(dst_pitch, width, height), src, pitched_bytes(src_pitch, width, height)))
#define GP_EFFECT_Fill(dst, bytes) (TRANSFER, (nullptr, dst, bytes))
#define GP_EFFECT_FillSpt(dst, bytes) (TRANSFER, (hipStreamPerThread, dst, bytes))

#define GP_EFFECT_CopyParams(params) (TRANSFER, (nullptr, params, params_copy))
#define GP_EFFECT_CopyParamsSpt(params) (TRANSFER, (hipStreamPerThread, params, params_copy))
#define GP_EFFECT_StreamCopy(stream, dst, src, bytes) \
  (STREAM_TRANSFER, (StreamArgument{stream, false}, dst, bytes, src, bytes))
#define GP_EFFECT_StreamFill(stream, operand, bytes) (STREAM_TRANSFER, (StreamArgument{stream, false}, operand, bytes))
#define GP_EFFECT_StreamFillSpt(stream, operand, bytes) \
  (STREAM_TRANSFER, (StreamArgument{stream, true}, operand, bytes))
#define GP_EFFECT_StreamCopyParams(stream, params) \
  (STREAM_TRANSFER, (StreamArgument{stream, false}, params, params_copy))
#define GP_EFFECT_StreamCopyParamsSpt(stream, params) \
  (STREAM_TRANSFER, (StreamArgument{stream, true}, params, params_copy))
#define GP_EFFECT_StreamBatch(stream, operations, count) (STREAM_BATCH, (stream, operations, count, checked))
#define GP_EFFECT_WorkAnywhere (WORK_ANYWHERE, )

#define GP_MAKE_BODY(effect, name, params, args) GP_MAKE_BODY_2(effect, name, params, args)
#define GP_MAKE_BODY_2(effect, name, params, args) GP_MAKE_BODY_3(GP_UNPACK effect, name, params, args)
#define GP_MAKE_BODY_3(...) GP_MAKE_BODY_4(__VA_ARGS__)
#define GP_MAKE_BODY_4(kind, about, name, params, args) GP_BODY_##kind(about, name, params, args)

#define GP_BODY_NOTHING(about, name, params, args)
#define GP_BODY_ASKS(about, name, params, args)                  \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    const hipError_t result = next().name args;                  \
    if (captures_open()) note_capture_doubt();                   \
    return result;                                               \
  }
#define GP_BODY_QUIETLY_ASKS(about, name, params, args) \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { return next().name args; }
#define GP_BODY_SETTINGS(about, name, params, args)              \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    return change_settings([&] { return next().name args; });    \
  }
#define GP_BODY_ENABLE_PEER(peer, name, params, args)            \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    return enable_peer(peer, [&] { return next().name args; });  \
  }
#define GP_BODY_SETTING(about, name, params, args)                                           \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {                             \
    return change_setting(EntryId::name, GP_UNPACK about, [&] { return next().name args; }); \
  }
#define GP_BODY_FUNCTION_SETTING(about, name, params, args)                            \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {                       \
    return change_function_setting(GP_UNPACK about, [&] { return next().name args; }); \
  }
#define GP_BODY_KERNEL_SETTING(about, name, params, args)                            \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {                     \
    return change_kernel_setting(GP_UNPACK about, [&] { return next().name args; }); \
  }
#define GP_BODY_STREAM_WORK(about, name, params, args)                                           \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {                                 \
    return other_stream_work(StreamArgument{GP_UNPACK about}, [&] { return next().name args; }); \
  }
#define GP_BODY_MEMORY(about, name, params, args)                                                                 \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {                                                  \
    const hipError_t result = memory_room().retry_after_trim(current_device(), [&] { return next().name args; }); \
    if (captures_open()) note_capture_doubt();                                                                    \
    return result;                                                                                                \
  }
#define GP_BODY_QUIET_MEMORY(about, name, params, args)          \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    return retry_with_room([&] { return next().name args; });    \
  }
#define GP_BODY_NAMES(pointer, name, params, args)               \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    pointer = address_guard().seen_by_hip(pointer);              \
    const hipError_t result = next().name args;                  \
    if (captures_open()) note_capture_doubt();                   \
    if (result == hipSuccess) mark<EntryId::name>(pointer);      \
    return result;                                               \
  }
#define GP_BODY_NAMES_RANGE(about, name, params, args)           \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    const void* const memory = name_range about;                 \
    const hipError_t result = next().name args;                  \
    if (captures_open()) note_capture_doubt();                   \
    if (result == hipSuccess) mark<EntryId::name>(memory);       \
    return result;                                               \
  }
#define GP_BODY_TRANSFER(about, name, params, args)                     \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {        \
    [[maybe_unused]] ParamsCopy params_copy;                            \
    const hipStream_t stream_of_work = operands about;                  \
    return null_work(stream_of_work, [&] { return next().name args; }); \
  }
#define GP_BODY_STREAM_TRANSFER(about, name, params, args)                      \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {                \
    [[maybe_unused]] ParamsCopy params_copy;                                    \
    const StreamArgument stream_of_work = operands about;                       \
    return other_stream_work(stream_of_work, [&] { return next().name args; }); \
  }
#define GP_BODY_STREAM_BATCH(about, name, params, args)                         \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {                \
    std::vector<MemoryOperation> checked;                                       \
    const StreamArgument stream_of_work = batch_operands about;                 \
    return other_stream_work(stream_of_work, [&] { return next().name args; }); \
  }
#define GP_BODY_WORK_ANYWHERE(about, name, params, args)         \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    any_stream_named();                                          \
    if (captures_open()) note_unknown_operation(EntryId::name);  \
    const hipError_t result = next().name args;                  \
    work_counts().note_work_anywhere();                          \
    return result;                                               \
  }
#define GP_BODY_GRAPHS(about, name, params, args)                \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    GraphCall call(#name);                                       \
    const hipError_t failed = call.about;                        \
    return failed == hipSuccess ? next().name args : failed;     \
  }

#define HIP_HOOK(result, name, params, args, node, declared, effect) \
  GP_MAKE_BODY(GP_EFFECT_##effect, name, params, args)
#define HIP_NEXT(result, name, params, args, node, declared, effect)
#define HIP_FORWARD(name, node, effect)
#include "shim/hip/hip_hooks.def"

}  // namespace graphpool::hooks
