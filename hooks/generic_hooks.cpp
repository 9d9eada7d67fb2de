// generic_hooks.cpp: the bodies that a row's effect says in full.
//
// GraphRead and the like take the row's own parameter names, so a row and its body cannot disagree.
#include "hooks/bodies.h"
#include "shim/capture/capture.h"
#include "shim/graph/graphs.h"
#include "shim/memory/copy_params.h"
#include "shim/memory/pool.h"
#include "shim/memory/stream_work.h"
#include "shim/settings.h"

namespace graphpool::hooks {
namespace {

/// Bytes from the first to behind the last of a box whose slices have as many rows as its memory says.
size_t box(const hipPitchedPtr& memory, const hipExtent& extent) noexcept {
  return extent.depth == 0
             ? 0
             : pitched_bytes(memory.pitch, extent.width, memory.ysize * (extent.depth - 1) + extent.height);
}

/// Replaces what the runtime must refuse as an operand; returns the stream the work is in.
template <typename Stream, typename Dst>
Stream operands(Stream stream, Dst*& dst, size_t dst_bytes) noexcept {
  dst = pool().operand(dst, dst_bytes);
  return stream;
}
template <typename Stream, typename Dst, typename Src>
Stream operands(Stream stream, Dst*& dst, size_t dst_bytes, Src*& src, size_t src_bytes) noexcept {
  dst = pool().operand(dst, dst_bytes);
  src = pool().operand(src, src_bytes);
  return stream;
}
template <typename Stream, typename Params>
Stream operands(Stream stream, const Params*& params, ParamsCopy& copy) noexcept {
  params = checked_params(params, &copy);
  return stream;
}
hipStream_t operands(hipStream_t stream) noexcept { return stream; }

/// The real graph and nodes for a call that changes the graph. By reference: the body forwards what they then are.
auto expose_at(hipGraph_t& graph, const hipGraphNode_t*& dependencies, size_t count) {
  return [&graph, &dependencies, count](std::vector<hipGraphNode_t>& storage, const char* why) {
    const hipError_t failed = graphs().known().expose(&graph, why);
    return failed == hipSuccess ? graphs().known().read_nodes(&dependencies, count, &storage, why) : failed;
  };
}
auto expose_edges(hipGraph_t& graph, const hipGraphNode_t*& from, const hipGraphNode_t*& to, size_t count) {
  return [&graph, &from, &to, count](std::vector<hipGraphNode_t>(&storage)[2], const char* why) {
    hipError_t failed = graphs().known().expose(&graph, why);
    if (failed == hipSuccess) failed = graphs().known().read_nodes(&from, count, &storage[0], why);
    if (failed == hipSuccess) failed = graphs().known().read_nodes(&to, count, &storage[1], why);
    return failed;
  };
}

/// A call that may leave work in a null stream, and that a capture forbids.
template <typename Forward>
hipError_t null_work(hipStream_t stream, Forward&& forward) {
  const hipError_t result = forward();
  stream_work().note_work(stream);
  if (captures_open()) note_capture_doubt();
  return result;
}

}  // namespace

// Each effect names the macro that makes the body, and the parameters it is about.
#define GP_EFFECT_Plain (NOTHING, )
#define GP_EFFECT_Quiet (NOTHING, )
#define GP_EFFECT_Stream (NOTHING, )
#define GP_EFFECT_Settings (SETTINGS, )
#define GP_EFFECT_StreamWork(stream) (STREAM_WORK, (stream, false))
#define GP_EFFECT_StreamWorkSpt(stream) (STREAM_WORK, (stream, true))
#define GP_EFFECT_GraphRead(graph) (GRAPH_READ, graph)
#define GP_EFFECT_GraphChange(graph) (GRAPH_CHANGE, graph)
#define GP_EFFECT_GraphAdd(graph, dependencies, count) (GRAPH_ADD, (graph, dependencies, count))
#define GP_EFFECT_GraphEdges(graph, from, to, count) (GRAPH_EDGES, (graph, from, to, count))
#define GP_EFFECT_NodeRead(node) (NODE_READ, node)
#define GP_EFFECT_NodeChange(node) (NODE_CHANGE, node)
#define GP_EFFECT_ExecChange(exec, node) (EXEC_CHANGE, (exec, node))
#define GP_EFFECT_Memory (MEMORY, )
#define GP_EFFECT_Names(pointer) (NAMES, pointer)
#define GP_EFFECT_NullWork (NULL_WORK, (nullptr))
#define GP_EFFECT_NullWorkSpt (NULL_WORK, (hipStreamPerThread))
#define GP_EFFECT_Copy(dst, src, bytes) (TRANSFER, (nullptr, dst, bytes, src, bytes))
#define GP_EFFECT_CopySpt(dst, src, bytes) (TRANSFER, (hipStreamPerThread, dst, bytes, src, bytes))
#define GP_EFFECT_Copy2D(dst, dst_pitch, src, src_pitch, width, height) \
  (TRANSFER, (nullptr, dst, pitched_bytes(dst_pitch, width, height), src, pitched_bytes(src_pitch, width, height)))
#define GP_EFFECT_Copy2DSpt(dst, dst_pitch, src, src_pitch, width, height) \
  (TRANSFER,                                                               \
   (hipStreamPerThread, dst, pitched_bytes(dst_pitch, width, height), src, pitched_bytes(src_pitch, width, height)))
#define GP_EFFECT_Fill(dst, bytes) (TRANSFER, (nullptr, dst, bytes))
#define GP_EFFECT_FillSpt(dst, bytes) (TRANSFER, (hipStreamPerThread, dst, bytes))

#define GP_EFFECT_CopyParams(params) (PARAMS, (nullptr, params, params_copy))
#define GP_EFFECT_CopyParamsSpt(params) (PARAMS, (hipStreamPerThread, params, params_copy))
#define GP_EFFECT_StreamCopy(stream, dst, src, bytes) \
  (STREAM_TRANSFER, (StreamArgument{stream, false}, dst, bytes, src, bytes))
#define GP_EFFECT_StreamFill(stream, operand, bytes) (STREAM_TRANSFER, (StreamArgument{stream, false}, operand, bytes))
#define GP_EFFECT_StreamFillSpt(stream, operand, bytes) \
  (STREAM_TRANSFER, (StreamArgument{stream, true}, operand, bytes))
#define GP_EFFECT_StreamCopyParams(stream, params) (STREAM_PARAMS, (StreamArgument{stream, false}, params, params_copy))
#define GP_EFFECT_StreamCopyParamsSpt(stream, params) \
  (STREAM_PARAMS, (StreamArgument{stream, true}, params, params_copy))
#define GP_EFFECT_WorkAnywhere (WORK_ANYWHERE, )

#define GP_MAKE_BODY(effect, name, params, args) GP_MAKE_BODY_2(effect, name, params, args)
#define GP_MAKE_BODY_2(effect, name, params, args) GP_MAKE_BODY_3(GP_UNPACK effect, name, params, args)
#define GP_MAKE_BODY_3(...) GP_MAKE_BODY_4(__VA_ARGS__)
#define GP_MAKE_BODY_4(kind, about, name, params, args) GP_BODY_##kind(about, name, params, args)

#define GP_BODY_NOTHING(about, name, params, args)
#define GP_BODY_SETTINGS(about, name, params, args)              \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    const hipError_t result = next().name args;                  \
    settings_changed();                                          \
    if (captures_open()) note_capture_doubt();                   \
    return result;                                               \
  }
#define GP_BODY_STREAM_WORK(about, name, params, args)                                           \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {                                 \
    return other_stream_work(StreamArgument{GP_UNPACK about}, [&] { return next().name args; }); \
  }
#define GP_BODY_MEMORY(about, name, params, args)                                                          \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {                                           \
    const hipError_t result = pool().retry_after_trim(current_device(), [&] { return next().name args; }); \
    if (captures_open()) note_capture_doubt();                                                             \
    return result;                                                                                         \
  }
#define GP_BODY_NAMES(pointer, name, params, args)               \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    pointer = pool().seen_by_hip(pointer);                       \
    const hipError_t result = next().name args;                  \
    if (captures_open()) note_capture_doubt();                   \
    return result;                                               \
  }
#define GP_BODY_NULL_WORK(about, name, params, args) GP_BODY_TRANSFER(about, name, params, args)
#define GP_BODY_TRANSFER(about, name, params, args)                     \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {        \
    const hipStream_t stream_of_work = operands about;                  \
    return null_work(stream_of_work, [&] { return next().name args; }); \
  }
#define GP_BODY_PARAMS(about, name, params, args)                       \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {        \
    ParamsCopy params_copy;                                             \
    const hipStream_t stream_of_work = operands about;                  \
    return null_work(stream_of_work, [&] { return next().name args; }); \
  }
#define GP_BODY_STREAM_TRANSFER(about, name, params, args)                      \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {                \
    const StreamArgument stream_of_work = operands about;                       \
    return other_stream_work(stream_of_work, [&] { return next().name args; }); \
  }
#define GP_BODY_STREAM_PARAMS(about, name, params, args)                        \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {                \
    ParamsCopy params_copy;                                                     \
    const StreamArgument stream_of_work = operands about;                       \
    return other_stream_work(stream_of_work, [&] { return next().name args; }); \
  }
#define GP_BODY_WORK_ANYWHERE(about, name, params, args)         \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    if (captures_open()) note_unknown_operation(EntryId::name);  \
    const hipError_t result = next().name args;                  \
    stream_work().note_work_anywhere();                          \
    return result;                                               \
  }
#define GP_BODY_GRAPH_READ(about, name, params, args)               \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {    \
    const hipError_t failed = graphs().known().read(&about, #name); \
    return failed == hipSuccess ? next().name args : failed;        \
  }
#define GP_BODY_GRAPH_CHANGE(about, name, params, args)               \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {      \
    const hipError_t failed = graphs().known().expose(&about, #name); \
    return failed == hipSuccess ? next().name args : failed;          \
  }
#define GP_BODY_GRAPH_ADD(about, name, params, args)             \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    std::vector<hipGraphNode_t> storage;                         \
    const hipError_t failed = expose_at about(storage, #name);   \
    return failed == hipSuccess ? next().name args : failed;     \
  }
#define GP_BODY_GRAPH_EDGES(about, name, params, args)            \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {  \
    std::vector<hipGraphNode_t> storage[2];                       \
    const hipError_t failed = expose_edges about(storage, #name); \
    return failed == hipSuccess ? next().name args : failed;      \
  }
#define GP_BODY_NODE_READ(about, name, params, args)                     \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {         \
    const hipError_t failed = graphs().known().read_node(&about, #name); \
    return failed == hipSuccess ? next().name args : failed;             \
  }
#define GP_BODY_NODE_CHANGE(about, name, params, args)                     \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {           \
    const hipError_t failed = graphs().known().expose_node(&about, #name); \
    return failed == hipSuccess ? next().name args : failed;               \
  }
#define GP_FIRST(first, second) first
#define GP_SECOND(first, second) second
#define GP_BODY_EXEC_CHANGE(about, name, params, args)                                 \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {                       \
    const hipError_t failed = graphs().expose_exec(&GP_FIRST about, &GP_SECOND about); \
    return failed == hipSuccess ? next().name args : failed;                           \
  }

#define HIP_HOOK(result, name, params, args, node, declared, effect) \
  GP_MAKE_BODY(GP_EFFECT_##effect, name, params, args)
#define HIP_NEXT(result, name, params, args, node, declared, effect)
#define HIP_FORWARD(name, node, effect)
#include "hooks/hip_hooks.def"

}  // namespace graphpool::hooks
