// generic_hooks.cpp: the bodies that a row's effect says in full.
//
// GraphRead and the like take the row's own parameter names, so a row and its body cannot disagree.
#include "hooks/bodies.h"
#include "shim/capture/capture.h"
#include "shim/graph/graphs.h"

namespace graphpool::hooks {

// Each effect names the macro that makes the body, and the parameters it is about.
#define GP_EFFECT_Plain (NOTHING, )
#define GP_EFFECT_Quiet (NOTHING, )
#define GP_EFFECT_Stream (NOTHING, )
#define GP_EFFECT_StreamWork(stream) (STREAM_WORK, (stream, false))
#define GP_EFFECT_StreamWorkSpt(stream) (STREAM_WORK, (stream, true))
#define GP_EFFECT_GraphRead(graph) (GRAPH_READ, graph)
#define GP_EFFECT_GraphChange(graph) (GRAPH_CHANGE, graph)
#define GP_EFFECT_NodeChange(node) (NODE_CHANGE, node)
#define GP_EFFECT_ExecRead(exec) (EXEC_READ, exec)
#define GP_EFFECT_ExecChange(exec, node) (EXEC_CHANGE, (exec, node))

#define GP_MAKE_BODY(effect, name, params, args) GP_MAKE_BODY_2(effect, name, params, args)
#define GP_MAKE_BODY_2(effect, name, params, args) GP_MAKE_BODY_3(GP_UNPACK effect, name, params, args)
#define GP_MAKE_BODY_3(...) GP_MAKE_BODY_4(__VA_ARGS__)
#define GP_MAKE_BODY_4(kind, about, name, params, args) GP_BODY_##kind(about, name, params, args)

#define GP_BODY_NOTHING(about, name, params, args)
#define GP_BODY_STREAM_WORK(about, name, params, args)                                           \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {                                 \
    return other_stream_work(StreamArgument{GP_UNPACK about}, [&] { return next().name args; }); \
  }
#define GP_BODY_GRAPH_READ(about, name, params, args)            \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    const hipError_t failed = graphs().read(&about, #name);      \
    return failed == hipSuccess ? next().name args : failed;     \
  }
#define GP_BODY_GRAPH_CHANGE(about, name, params, args)          \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    const hipError_t failed = graphs().expose(&about, #name);    \
    return failed == hipSuccess ? next().name args : failed;     \
  }
#define GP_BODY_NODE_CHANGE(about, name, params, args)           \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) { \
    graphs().expose_node(about);                                 \
    return next().name args;                                     \
  }
#define GP_BODY_EXEC_READ(about, name, params, args)                 \
  hipError_t on_##name GP_WITH_ENTRY(Entry&, GP_UNPACK params) {     \
    const hipError_t failed = graphs().expose_exec(&about, nullptr); \
    return failed == hipSuccess ? next().name args : failed;         \
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
