// bounds.h: every entry that takes an operand of a size, called so that it touches exactly `bytes` from `p` on. Copies
// have `other` for their second operand, which is large enough. bounds_test.cpp sees to it that none is missing.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/preload/graphs/registered.h"

// Not in every header the tests are built with.
extern "C" {
hipError_t hipMemcpy_spt(void*, const void*, std::size_t, hipMemcpyKind);
hipError_t hipMemcpyAsync_spt(void*, const void*, std::size_t, hipMemcpyKind, hipStream_t);
hipError_t hipMemcpy2D_spt(void*, std::size_t, const void*, std::size_t, std::size_t, std::size_t, hipMemcpyKind);
hipError_t hipMemcpy2DAsync_spt(void*, std::size_t, const void*, std::size_t, std::size_t, std::size_t, hipMemcpyKind,
                                hipStream_t);
hipError_t hipMemcpy3D_spt(const hipMemcpy3DParms*);
hipError_t hipMemcpy3DAsync_spt(const hipMemcpy3DParms*, hipStream_t);
hipError_t hipMemset_spt(void*, int, std::size_t);
hipError_t hipMemsetAsync_spt(void*, int, std::size_t, hipStream_t);
hipError_t hipMemset2D_spt(void*, std::size_t, int, std::size_t, std::size_t);
hipError_t hipMemset2DAsync_spt(void*, std::size_t, int, std::size_t, std::size_t, hipStream_t);
hipError_t hipMemset3D_spt(hipPitchedPtr, int, hipExtent);
hipError_t hipMemset3DAsync_spt(hipPitchedPtr, int, hipExtent, hipStream_t);
hipError_t hipMemsetD2D8(hipDeviceptr_t, std::size_t, unsigned char, std::size_t, std::size_t);
hipError_t hipMemsetD2D16(hipDeviceptr_t, std::size_t, unsigned short, std::size_t, std::size_t);
hipError_t hipMemsetD2D32(hipDeviceptr_t, std::size_t, unsigned int, std::size_t, std::size_t);
hipError_t hipMemsetD2D8Async(hipDeviceptr_t, std::size_t, unsigned char, std::size_t, std::size_t, hipStream_t);
hipError_t hipMemsetD2D16Async(hipDeviceptr_t, std::size_t, unsigned short, std::size_t, std::size_t, hipStream_t);
hipError_t hipMemsetD2D32Async(hipDeviceptr_t, std::size_t, unsigned int, std::size_t, std::size_t, hipStream_t);
hipError_t hipDrvGraphAddMemcpyNode(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, std::size_t,
                                    const HIP_MEMCPY3D*, hipCtx_t);
hipError_t hipDrvGraphMemcpyNodeSetParams(hipGraphNode_t, const HIP_MEMCPY3D*);
hipError_t hipDrvGraphExecMemcpyNodeSetParams(hipGraphExec_t, hipGraphNode_t, const HIP_MEMCPY3D*, hipCtx_t);
hipError_t hipDrvGraphAddMemsetNode(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, std::size_t, const void*,
                                    hipCtx_t);
hipError_t hipDrvGraphExecMemsetNodeSetParams(hipGraphExec_t, hipGraphNode_t, const void*, hipCtx_t);
hipError_t hipMemcpyFromSymbol_spt(void*, const void*, std::size_t, std::size_t, hipMemcpyKind);
hipError_t hipMemcpyFromSymbolAsync_spt(void*, const void*, std::size_t, std::size_t, hipMemcpyKind, hipStream_t);
hipError_t hipMemcpyToSymbol_spt(const void*, const void*, std::size_t, std::size_t, hipMemcpyKind);
hipError_t hipMemcpyToSymbolAsync_spt(const void*, const void*, std::size_t, std::size_t, hipMemcpyKind, hipStream_t);
hipError_t hipMemAdvise_v2(const void*, std::size_t, hipMemoryAdvise, hipMemLocation);
hipError_t hipMemPrefetchAsync_v2(const void*, std::size_t, hipMemLocation, unsigned, hipStream_t);
hipError_t hipGraphAddNode(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, std::size_t, void*);
hipError_t hipGraphNodeSetParams(hipGraphNode_t, const void*);
hipError_t hipGraphExecNodeSetParams(hipGraphExec_t, hipGraphNode_t, const void*);
}

namespace memory_rules {

struct Touch {
  std::string name;  ///< begins with the row's
  /// p and other are device memory, host is plain memory; bytes: a multiple of 256.
  std::function<hipError_t(char* p, char* other, char* host, std::size_t bytes, hipStream_t stream)> call;
  bool refuses_mappings = false;  ///< of mapped memory the runtime takes none

  std::string row() const { return name.substr(0, name.find_first_of("( ")); }
};

/// A variable of a module, as large as any operand here.
inline const void* symbol() {
  static char shadow = 0, stub = 0;
  static captures::Registered* const code = [] {
    auto* const made = new captures::Registered(
        "__device__ char bounded[1 << 18]; extern \"C\" __global__ void fill() { bounded[0] = 1; }", "fill", &stub);
    made->add_variable("bounded", &shadow, 1 << 18);
    return made;
  }();
  return code == nullptr ? nullptr : &shadow;
}

inline hipMemcpy3DParms box_params(char* dst, char* src, std::size_t bytes, hipMemcpyKind kind) {
  hipMemcpy3DParms params{};
  params.dstPtr = {dst, 128, 128, 1};
  params.srcPtr = {src, 128, 128, 1};
  params.extent = {128, 1, bytes / 128};
  params.kind = kind;
  return params;
}

/// hipMemoryType got other values with HIP 6, and HIP_MEMCPY3D wider members.
inline bool six() {
  int version = 0;
  return hipRuntimeGetVersion(&version) == hipSuccess && version >= 60000000;
}
inline hipMemoryType on_device() { return static_cast<hipMemoryType>(six() ? 2 : 1); }

inline hip_Memcpy2D plane_params(char* dst, char* src, std::size_t bytes) {
  hip_Memcpy2D params{};
  params.srcMemoryType = params.dstMemoryType = on_device();
  params.dstDevice = dst;
  params.srcDevice = src;
  params.srcPitch = params.dstPitch = params.WidthInBytes = 256;
  params.Height = bytes / 256;
  return params;
}

struct WideMemcpy3D {
  std::size_t srcXInBytes, srcY, srcZ, srcLOD;
  hipMemoryType srcMemoryType;
  const void* srcHost;
  hipDeviceptr_t srcDevice;
  hipArray_t srcArray;
  std::size_t srcPitch, srcHeight, dstXInBytes, dstY, dstZ, dstLOD;
  hipMemoryType dstMemoryType;
  void* dstHost;
  hipDeviceptr_t dstDevice;
  hipArray_t dstArray;
  std::size_t dstPitch, dstHeight, WidthInBytes, Height, Depth;
};

/// Calls with the layout of the runtime's version.
template <typename Params, typename Call>
hipError_t with_driver_params(char* dst, char* src, std::size_t bytes, Call&& call) {
  Params params{};
  params.srcMemoryType = params.dstMemoryType = on_device();
  params.dstDevice = dst;
  params.srcDevice = src;
  params.srcPitch = params.dstPitch = params.WidthInBytes = 128;
  params.srcHeight = params.dstHeight = params.Height = 2;
  params.Depth = static_cast<unsigned>(bytes / 256);
  return call(reinterpret_cast<const HIP_MEMCPY3D*>(&params));
}
template <typename Call>
hipError_t driver_box(char* dst, char* src, std::size_t bytes, Call&& call) {
  return six() ? with_driver_params<WideMemcpy3D>(dst, src, bytes, call)
               : with_driver_params<HIP_MEMCPY3D>(dst, src, bytes, call);
}

// --- Nodes of graphs: what hipGraphNodeParams and HIP_MEMSET_NODE_PARAMS begin with ---
struct AnyNode {
  struct Copy {
    int flags, reserved[3];
    hipMemcpy3DParms params;
  };

  int type, reserved0[3];
  union {
    long long reserved1[29];
    Copy copy;
    hipMemsetParams fill;
  };
  long long reserved2;
};
struct DriverFill {
  void* dst;
  std::size_t pitch;
  unsigned value, element_bytes;
  std::size_t width, height;
};

inline hipMemsetParams fill_params(char* dst, std::size_t bytes) {
  hipMemsetParams params{};
  params.dst = dst;
  params.elementSize = 1;
  params.pitch = params.width = bytes;
  params.height = 1;
  return params;
}
inline AnyNode any_copy(char* dst, char* src, std::size_t bytes) {
  AnyNode node{};
  node.type = 1;
  node.copy.params = box_params(dst, src, bytes, hipMemcpyDeviceToDevice);
  return node;
}
inline AnyNode any_fill(char* dst, std::size_t bytes) {
  AnyNode node{};
  node.type = 2;
  node.fill = fill_params(dst, bytes);
  return node;
}
/// The fill a driver-style call takes, by the runtime's version.
template <typename Call>
hipError_t driver_fill(char* dst, std::size_t bytes, Call&& call) {
  int version = 0;
  static_cast<void>(hipRuntimeGetVersion(&version));
  const hipMemsetParams params = fill_params(dst, bytes);
  const DriverFill old{dst, bytes, 0, 1, bytes, 1};
  return version >= 70000000 ? call(static_cast<const void*>(&params)) : call(static_cast<const void*>(&old));
}

/// Calls with a graph of its own.
template <typename Call>
hipError_t in_graph(Call&& call) {
  hipGraph_t graph = nullptr;
  if (const hipError_t error = hipGraphCreate(&graph, 0); error != hipSuccess) return error;
  hipGraphNode_t node = nullptr;
  const hipError_t result = call(graph, &node);
  static_cast<void>(hipGraphDestroy(graph));
  return result;
}
/// Calls with a node that `add` has made, and with an executable graph that has it.
template <typename Add, typename Call>
hipError_t in_exec(Add&& add, Call&& call) {
  return in_graph([&](hipGraph_t graph, hipGraphNode_t* node) {
    hipGraphExec_t exec = nullptr;
    hipError_t result = add(graph, node);
    if (result == hipSuccess) result = hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0);
    if (result == hipSuccess) result = call(exec, *node);
    if (exec != nullptr) static_cast<void>(hipGraphExecDestroy(exec));
    return result;
  });
}
inline hipCtx_t context() {
  hipCtx_t made = nullptr;
  static_cast<void>(hipDevicePrimaryCtxRetain(&made, 0));
  return made;
}

inline constexpr hipMemcpyKind kIn = hipMemcpyHostToDevice, kOut = hipMemcpyDeviceToHost, kOn = hipMemcpyDeviceToDevice;

/// Sets `set` in a node that `add` has made with operands that fit.
template <typename Add, typename Set>
hipError_t in_node(Add&& add, Set&& set) {
  return in_graph([&](hipGraph_t graph, hipGraphNode_t* node) {
    const hipError_t added = add(graph, node);
    return added == hipSuccess ? set(*node) : added;
  });
}
inline hipError_t add_row(hipGraph_t graph, hipGraphNode_t* node, char* dst, const char* src, std::size_t n) {
  return hipGraphAddMemcpyNode1D(node, graph, nullptr, 0, dst, src, n, kOn);
}
inline hipError_t set_row(char* dst, const char* src, char* other, std::size_t n, bool in_an_exec) {
  const auto add = [&](hipGraph_t graph, hipGraphNode_t* node) {
    return add_row(graph, node, other, other + 512, 512);
  };
  if (in_an_exec)
    return in_exec(add, [&](hipGraphExec_t exec, hipGraphNode_t node) {
      return hipGraphExecMemcpyNodeSetParams1D(exec, node, dst, src, n, kOn);
    });
  return in_node(add, [&](hipGraphNode_t node) { return hipGraphMemcpyNodeSetParams1D(node, dst, src, n, kOn); });
}
inline hipError_t add_box(hipGraph_t graph, hipGraphNode_t* node, char* dst, char* src, std::size_t n) {
  const hipMemcpy3DParms params = box_params(dst, src, n, kOn);
  return hipGraphAddMemcpyNode(node, graph, nullptr, 0, &params);
}
inline hipError_t set_box(char* dst, char* src, char* other, std::size_t n, bool in_an_exec) {
  const auto add = [&](hipGraph_t graph, hipGraphNode_t* node) {
    return add_box(graph, node, other, other + 512, 512);
  };
  hipMemcpy3DParms params = box_params(dst, src, n, kOn);
  if (in_an_exec)
    return in_exec(add, [&](hipGraphExec_t exec, hipGraphNode_t node) {
      return hipGraphExecMemcpyNodeSetParams(exec, node, &params);
    });
  return in_node(add, [&](hipGraphNode_t node) { return hipGraphMemcpyNodeSetParams(node, &params); });
}
inline hipError_t add_fill(hipGraph_t graph, hipGraphNode_t* node, char* dst, std::size_t n) {
  const hipMemsetParams params = fill_params(dst, n);
  return hipGraphAddMemsetNode(node, graph, nullptr, 0, &params);
}
inline hipError_t set_fill(char* dst, char* other, std::size_t n, bool in_an_exec) {
  const auto add = [&](hipGraph_t graph, hipGraphNode_t* node) { return add_fill(graph, node, other, 512); };
  const hipMemsetParams params = fill_params(dst, n);
  if (in_an_exec)
    return in_exec(add, [&](hipGraphExec_t exec, hipGraphNode_t node) {
      return hipGraphExecMemsetNodeSetParams(exec, node, &params);
    });
  return in_node(add, [&](hipGraphNode_t node) { return hipGraphMemsetNodeSetParams(node, &params); });
}
inline hipError_t add_symbol(hipGraph_t graph, hipGraphNode_t* node, char* memory, std::size_t n, bool to) {
  return to ? hipGraphAddMemcpyNodeToSymbol(node, graph, nullptr, 0, symbol(), memory, n, 0, kOn)
            : hipGraphAddMemcpyNodeFromSymbol(node, graph, nullptr, 0, memory, symbol(), n, 0, kOn);
}
inline hipError_t set_symbol(char* memory, char* other, std::size_t n, bool to, bool in_an_exec) {
  const auto add = [&](hipGraph_t graph, hipGraphNode_t* node) { return add_symbol(graph, node, other, 512, to); };
  if (in_an_exec)
    return in_exec(add, [&](hipGraphExec_t exec, hipGraphNode_t node) {
      return to ? hipGraphExecMemcpyNodeSetParamsToSymbol(exec, node, symbol(), memory, n, 0, kOn)
                : hipGraphExecMemcpyNodeSetParamsFromSymbol(exec, node, memory, symbol(), n, 0, kOn);
    });
  return in_node(add, [&](hipGraphNode_t node) {
    return to ? hipGraphMemcpyNodeSetParamsToSymbol(node, symbol(), memory, n, 0, kOn)
              : hipGraphMemcpyNodeSetParamsFromSymbol(node, memory, symbol(), n, 0, kOn);
  });
}

inline hipError_t add_driver_box(hipGraph_t graph, hipGraphNode_t* node, char* dst, char* src, std::size_t n) {
  return driver_box(dst, src, n, [&](const HIP_MEMCPY3D* params) {
    return hipDrvGraphAddMemcpyNode(node, graph, nullptr, 0, params, context());
  });
}
inline hipError_t add_driver_fill(hipGraph_t graph, hipGraphNode_t* node, char* dst, std::size_t n) {
  return driver_fill(
      dst, n, [&](const void* params) { return hipDrvGraphAddMemsetNode(node, graph, nullptr, 0, params, context()); });
}
inline hipError_t add_any(hipGraph_t graph, hipGraphNode_t* node, AnyNode params) {
  return hipGraphAddNode(node, graph, nullptr, 0, &params);
}
/// Sets what `params` says in a node that was added with 512 bytes of `other`.
inline hipError_t set_any(AnyNode params, char* other, bool in_an_exec) {
  const AnyNode before = params.type == 1 ? any_copy(other, other + 512, 512) : any_fill(other, 512);
  return in_exec([&](hipGraph_t graph, hipGraphNode_t* node) { return add_any(graph, node, before); },
                 [&](hipGraphExec_t exec, hipGraphNode_t node) {
                   return in_an_exec ? hipGraphExecNodeSetParams(exec, node, &params)
                                     : hipGraphNodeSetParams(node, &params);
                 });
}
inline hipError_t set_driver_box(char* dst, char* src, char* other, std::size_t n, bool in_an_exec) {
  return in_exec(
      [&](hipGraph_t graph, hipGraphNode_t* node) { return add_driver_box(graph, node, other, other + 512, 512); },
      [&](hipGraphExec_t exec, hipGraphNode_t node) {
        return driver_box(dst, src, n, [&](const HIP_MEMCPY3D* params) {
          return in_an_exec ? hipDrvGraphExecMemcpyNodeSetParams(exec, node, params, context())
                            : hipDrvGraphMemcpyNodeSetParams(node, params);
        });
      });
}
inline hipError_t set_driver_fill(char* dst, char* other, std::size_t n) {
  return in_exec([&](hipGraph_t graph, hipGraphNode_t* node) { return add_driver_fill(graph, node, other, 512); },
                 [&](hipGraphExec_t exec, hipGraphNode_t node) {
                   return driver_fill(dst, n, [&](const void* params) {
                     return hipDrvGraphExecMemsetNodeSetParams(exec, node, params, context());
                   });
                 });
}

#define TOUCH(...)                                                                                    \
  Touch {                                                                                             \
#__VA_ARGS__, [](char* p, char* other, char* host, std::size_t n, hipStream_t s) {                  \
      (void)p, (void)other, (void)host, (void)n, (void)s;                                               \
      return __VA_ARGS__;                                                                               \
    } \
  }
/// The same of a row that the expression does not begin with.
#define TOUCH_BY(row, ...)                                                                            \
  Touch {                                                                                             \
#row " by " #__VA_ARGS__, [](char* p, char* other, char* host, std::size_t n, hipStream_t s) {      \
      (void)p, (void)other, (void)host, (void)n, (void)s;                                               \
      return __VA_ARGS__;                                                                               \
    } \
  }
#define TOUCH_IN_GRAPH(row, ...) \
  TOUCH_BY(row, in_graph([&](hipGraph_t graph, hipGraphNode_t* node) { return __VA_ARGS__; }))

inline std::vector<Touch> touches() {
  return {
      TOUCH(hipMemcpy(p, host, n, kIn)),
      TOUCH(hipMemcpy(host, p, n, kOut)),
      TOUCH(hipMemcpy(p, other, n, kOn)),
      TOUCH(hipMemcpy(other, p, n, kOn)),
      TOUCH(hipMemcpy(other, p, n, hipMemcpyDefault)),
      TOUCH(hipMemcpy_spt(p, other, n, kOn)),
      TOUCH(hipMemcpy_spt(other, p, n, kOn)),
      TOUCH(hipMemcpyAsync(p, other, n, kOn, s)),
      TOUCH(hipMemcpyAsync(other, p, n, kOn, s)),
      TOUCH(hipMemcpyAsync_spt(p, other, n, kOn, s)),
      TOUCH(hipMemcpyAsync_spt(other, p, n, kOn, s)),
      TOUCH(hipMemcpyHtoD(p, host, n)),
      TOUCH(hipMemcpyDtoH(host, p, n)),
      TOUCH(hipMemcpyDtoD(p, other, n)),
      TOUCH(hipMemcpyDtoD(other, p, n)),
      TOUCH(hipMemcpyHtoDAsync(p, host, n, s)),
      TOUCH(hipMemcpyDtoHAsync(host, p, n, s)),
      TOUCH(hipMemcpyDtoDAsync(p, other, n, s)),
      TOUCH(hipMemcpyDtoDAsync(other, p, n, s)),
      TOUCH(hipMemcpyWithStream(p, other, n, kOn, s)),
      TOUCH(hipMemcpyWithStream(other, p, n, kOn, s)),
      TOUCH(hipMemcpyPeer(p, 0, other, 0, n)),
      TOUCH(hipMemcpyPeer(other, 0, p, 0, n)),
      TOUCH(hipMemcpyPeerAsync(p, 0, other, 0, n, s)),
      TOUCH(hipMemcpyPeerAsync(other, 0, p, 0, n, s)),
      TOUCH(hipMemcpy2D(p, 128, other, 128, 128, n / 128, kOn)),
      TOUCH(hipMemcpy2D(other, 128, p, 128, 128, n / 128, kOn)),
      TOUCH(hipMemcpy2D_spt(other, 128, p, 128, 128, n / 128, kOn)),
      TOUCH(hipMemcpy2DAsync(p, 128, other, 128, 128, n / 128, kOn, s)),
      TOUCH(hipMemcpy2DAsync(other, 128, p, 128, 128, n / 128, kOn, s)),
      TOUCH(hipMemcpy2DAsync_spt(other, 128, p, 128, 128, n / 128, kOn, s)),
      {"hipMemcpy3D to",
       [](char* p, char* other, char*, std::size_t n, hipStream_t) {
         const auto params = box_params(p, other, n, kOn);
         return hipMemcpy3D(&params);
       }},
      {"hipMemcpy3D from",
       [](char* p, char* other, char*, std::size_t n, hipStream_t) {
         const auto params = box_params(other, p, n, kOn);
         return hipMemcpy3D(&params);
       }},
      {"hipMemcpy3D_spt",
       [](char* p, char* other, char*, std::size_t n, hipStream_t) {
         const auto params = box_params(p, other, n, kOn);
         return hipMemcpy3D_spt(&params);
       }},
      {"hipMemcpy3DAsync to",
       [](char* p, char* other, char*, std::size_t n, hipStream_t s) {
         const auto params = box_params(p, other, n, kOn);
         return hipMemcpy3DAsync(&params, s);
       }},
      {"hipMemcpy3DAsync from",
       [](char* p, char* other, char*, std::size_t n, hipStream_t s) {
         const auto params = box_params(other, p, n, kOn);
         return hipMemcpy3DAsync(&params, s);
       }},
      {"hipMemcpy3DAsync_spt",
       [](char* p, char* other, char*, std::size_t n, hipStream_t s) {
         const auto params = box_params(other, p, n, kOn);
         return hipMemcpy3DAsync_spt(&params, s);
       }},
      {"hipMemcpyParam2D to",
       [](char* p, char* other, char*, std::size_t n, hipStream_t) {
         const auto params = plane_params(p, other, n);
         return hipMemcpyParam2D(&params);
       }},
      {"hipMemcpyParam2D from",
       [](char* p, char* other, char*, std::size_t n, hipStream_t) {
         const auto params = plane_params(other, p, n);
         return hipMemcpyParam2D(&params);
       }},
      {"hipMemcpyParam2DAsync",
       [](char* p, char* other, char*, std::size_t n, hipStream_t s) {
         const auto params = plane_params(p, other, n);
         return hipMemcpyParam2DAsync(&params, s);
       }},
      {"hipDrvMemcpy2DUnaligned",
       [](char* p, char* other, char*, std::size_t n, hipStream_t) {
         const auto params = plane_params(other, p, n);
         return hipDrvMemcpy2DUnaligned(&params);
       }},
      {"hipDrvMemcpy3D to",
       [](char* p, char* other, char*, std::size_t n, hipStream_t) {
         return driver_box(p, other, n, [](const HIP_MEMCPY3D* params) { return hipDrvMemcpy3D(params); });
       }},
      {"hipDrvMemcpy3DAsync from",
       [](char* p, char* other, char*, std::size_t n, hipStream_t s) {
         return driver_box(other, p, n, [s](const HIP_MEMCPY3D* params) { return hipDrvMemcpy3DAsync(params, s); });
       }},
      TOUCH(hipMemset(p, 1, n)),
      TOUCH(hipMemset_spt(p, 1, n)),
      TOUCH(hipMemsetAsync(p, 1, n, s)),
      TOUCH(hipMemsetAsync_spt(p, 1, n, s)),
      TOUCH(hipMemset2D(p, 128, 1, 128, n / 128)),
      TOUCH(hipMemset2D_spt(p, 128, 1, 128, n / 128)),
      TOUCH(hipMemset2DAsync(p, 128, 1, 128, n / 128, s)),
      TOUCH(hipMemset2DAsync_spt(p, 128, 1, 128, n / 128, s)),
      TOUCH(hipMemset3D({p, 128, 128, 1}, 1, {128, 1, n / 128})),
      TOUCH(hipMemset3D_spt({p, 128, 128, 1}, 1, {128, 1, n / 128})),
      TOUCH(hipMemset3DAsync({p, 128, 128, 1}, 1, {128, 1, n / 128}, s)),
      TOUCH(hipMemset3DAsync_spt({p, 128, 128, 1}, 1, {128, 1, n / 128}, s)),
      TOUCH(hipMemsetD8(p, 1, n)),
      TOUCH(hipMemsetD16(p, 1, n / 2)),
      TOUCH(hipMemsetD32(p, 1, n / 4)),
      TOUCH(hipMemsetD8Async(p, 1, n, s)),
      TOUCH(hipMemsetD16Async(p, 1, n / 2, s)),
      TOUCH(hipMemsetD32Async(p, 1, n / 4, s)),
      TOUCH(hipMemsetD2D8(p, 128, 1, 128, n / 128)),
      TOUCH(hipMemsetD2D16(p, 128, 1, 64, n / 128)),
      TOUCH(hipMemsetD2D32(p, 128, 1, 32, n / 128)),
      TOUCH(hipMemsetD2D8Async(p, 128, 1, 128, n / 128, s)),
      TOUCH(hipMemsetD2D16Async(p, 128, 1, 64, n / 128, s)),
      TOUCH(hipMemsetD2D32Async(p, 128, 1, 32, n / 128, s)),
      TOUCH(hipMemcpyToSymbol(symbol(), p, n, 0, kOn)),
      TOUCH(hipMemcpyToSymbol_spt(symbol(), p, n, 0, kOn)),
      TOUCH(hipMemcpyToSymbolAsync(symbol(), p, n, 0, kOn, s)),
      TOUCH(hipMemcpyToSymbolAsync_spt(symbol(), p, n, 0, kOn, s)),
      TOUCH(hipMemcpyFromSymbol(p, symbol(), n, 0, kOn)),
      TOUCH(hipMemcpyFromSymbol_spt(p, symbol(), n, 0, kOn)),
      TOUCH(hipMemcpyFromSymbolAsync(p, symbol(), n, 0, kOn, s)),
      TOUCH(hipMemcpyFromSymbolAsync_spt(p, symbol(), n, 0, kOn, s)),
      TOUCH_IN_GRAPH(hipDrvGraphAddMemcpyNode, add_driver_box(graph, node, p, other, n)),
      TOUCH_IN_GRAPH(hipDrvGraphAddMemcpyNode, add_driver_box(graph, node, other, p, n)),
      TOUCH_IN_GRAPH(hipDrvGraphAddMemsetNode, add_driver_fill(graph, node, p, n)),
      TOUCH_IN_GRAPH(hipGraphAddNode, add_any(graph, node, any_copy(p, other, n))),
      TOUCH_IN_GRAPH(hipGraphAddNode, add_any(graph, node, any_copy(other, p, n))),
      TOUCH_IN_GRAPH(hipGraphAddNode, add_any(graph, node, any_fill(p, n))),
      TOUCH_IN_GRAPH(hipGraphAddMemcpyNode1D, add_row(graph, node, p, other, n)),
      TOUCH_IN_GRAPH(hipGraphAddMemcpyNode1D, add_row(graph, node, other, p, n)),
      TOUCH_IN_GRAPH(hipGraphAddMemcpyNode1D, hipGraphAddMemcpyNode1D(node, graph, nullptr, 0, host, p, n, kOut)),
      TOUCH_IN_GRAPH(hipGraphAddMemcpyNode1D, hipGraphAddMemcpyNode1D(node, graph, nullptr, 0, p, host, n, kIn)),
      TOUCH_IN_GRAPH(hipGraphAddMemcpyNode, add_box(graph, node, p, other, n)),
      TOUCH_IN_GRAPH(hipGraphAddMemcpyNode, add_box(graph, node, other, p, n)),
      TOUCH_IN_GRAPH(hipGraphAddMemsetNode, add_fill(graph, node, p, n)),
      TOUCH_IN_GRAPH(hipGraphAddMemcpyNodeToSymbol, add_symbol(graph, node, p, n, true)),
      TOUCH_IN_GRAPH(hipGraphAddMemcpyNodeFromSymbol, add_symbol(graph, node, p, n, false)),
      TOUCH_BY(hipGraphMemcpyNodeSetParams1D, set_row(p, other, other, n, false)),
      TOUCH_BY(hipGraphMemcpyNodeSetParams1D, set_row(other, p, other, n, false)),
      TOUCH_BY(hipGraphExecMemcpyNodeSetParams1D, set_row(p, other, other, n, true)),
      TOUCH_BY(hipGraphExecMemcpyNodeSetParams1D, set_row(other, p, other, n, true)),
      TOUCH_BY(hipGraphMemcpyNodeSetParams, set_box(p, other, other, n, false)),
      TOUCH_BY(hipGraphMemcpyNodeSetParams, set_box(other, p, other, n, false)),
      TOUCH_BY(hipGraphExecMemcpyNodeSetParams, set_box(p, other, other, n, true)),
      TOUCH_BY(hipGraphExecMemcpyNodeSetParams, set_box(other, p, other, n, true)),
      TOUCH_BY(hipGraphMemsetNodeSetParams, set_fill(p, other, n, false)),
      TOUCH_BY(hipGraphExecMemsetNodeSetParams, set_fill(p, other, n, true)),
      TOUCH_BY(hipGraphMemcpyNodeSetParamsToSymbol, set_symbol(p, other, n, true, false)),
      TOUCH_BY(hipGraphExecMemcpyNodeSetParamsToSymbol, set_symbol(p, other, n, true, true)),
      TOUCH_BY(hipGraphMemcpyNodeSetParamsFromSymbol, set_symbol(p, other, n, false, false)),
      TOUCH_BY(hipGraphExecMemcpyNodeSetParamsFromSymbol, set_symbol(p, other, n, false, true)),
      TOUCH_BY(hipGraphNodeSetParams, set_any(any_copy(p, other, n), other, false)),
      TOUCH_BY(hipGraphExecNodeSetParams, set_any(any_copy(other, p, n), other, true)),
      TOUCH_BY(hipGraphNodeSetParams, set_any(any_fill(p, n), other, false)),
      TOUCH_BY(hipGraphExecNodeSetParams, set_any(any_fill(p, n), other, true)),
      TOUCH_BY(hipDrvGraphMemcpyNodeSetParams, set_driver_box(p, other, other, n, false)),
      TOUCH_BY(hipDrvGraphExecMemcpyNodeSetParams, set_driver_box(other, p, other, n, true)),
      TOUCH_BY(hipDrvGraphExecMemsetNodeSetParams, set_driver_fill(p, other, n)),
  };
}

/// Of mapped memory the CPU runtime takes no advice, as AMD's.
inline std::vector<Touch> advice() {
  std::vector<Touch> all = {
      TOUCH(hipMemAdvise(p, n, hipMemAdviseSetReadMostly, 0)),
      TOUCH(hipMemAdvise_v2(p, n, hipMemAdviseSetReadMostly, {hipMemLocationTypeDevice, 0})),
      TOUCH(hipMemPrefetchAsync(p, n, 0, s)),
      TOUCH(hipMemPrefetchAsync_v2(p, n, {hipMemLocationTypeDevice, 0}, 0, s)),
      {"hipMemRangeGetAttribute",
       [](char* p, char*, char*, std::size_t n, hipStream_t) {
         int value = 0;
         return hipMemRangeGetAttribute(&value, sizeof value, hipMemRangeAttributeReadMostly, p, n);
       }},
      {"hipMemRangeGetAttributes",
       [](char* p, char*, char*, std::size_t n, hipStream_t) {
         int value = 0;
         void* places[] = {&value};
         std::size_t sizes[] = {sizeof value};
         hipMemRangeAttribute wanted[] = {hipMemRangeAttributeReadMostly};
         return hipMemRangeGetAttributes(places, sizes, wanted, 1, p, n);
       }},
  };
  for (Touch& touch : all) touch.refuses_mappings = true;
  return all;
}

}  // namespace memory_rules
