// bodies.h: the declarations of all bodies, made from the rows of kind HIP_HOOK: R on_<name>(Entry&, parameters...).
// A body decides what a call becomes by asking the engine, and reaches HIP by next().<name> only.
#pragma once

#include "shim/entry.h"
#include "shim/next.h"

namespace graphpool::hooks {

#define GP_UNPACK(...) __VA_ARGS__
#define GP_WITH_ENTRY(first, ...) (first __VA_OPT__(, ) __VA_ARGS__)
#define HIP_HOOK(result, name, params, args, node, declared, effect) \
  result on_##name GP_WITH_ENTRY(Entry& entry, GP_UNPACK params);
#define HIP_NEXT(result, name, params, args, node, declared, effect)
#define HIP_FORWARD(name, node, effect)
#include "hooks/hip_hooks.def"
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD

}  // namespace graphpool::hooks
