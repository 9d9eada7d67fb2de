#include "shim/recording/reissue.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "shim/base/seeded_defect.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/kernel/argument_layout.h"
#include "shim/kernel/functions.h"
#include "shim/memory/copy_params.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/patch_table.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {
namespace {

/// A kernel launch as HIP takes it: one pointer an argument, into the binding, or, where the program gave them as one
/// buffer, so: what it asks for of the node is what it gave.
class Launch {
 public:
  Launch(const Signature& signature, std::uint32_t offset, const ArgumentLayout* layout, const Binding& binding)
      : payload_(payload_at<KernelPayload>(binding, offset)), function_(reinterpret_cast<void*>(signature.object)) {
    const std::byte* const segment = binding.data() + offset + sizeof(KernelPayload);
    const auto arguments = layout->arguments();
    void** out = few_.data();
    if (arguments.size() > few_.size()) {
      many_.resize(arguments.size());
      out = many_.data();
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) out[i] = const_cast<std::byte*>(segment + arguments[i].offset);
    params_ = out;
    bytes_ = layout->bytes();
    extra_ = {HIP_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte*>(segment), HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes_,
              HIP_LAUNCH_PARAM_END};
    if ((signature.validity & kPackedArguments) != 0) params_ = nullptr;
  }

  dim3 grid() const { return {payload_.grid[0], payload_.grid[1], payload_.grid[2]}; }
  dim3 block() const { return {payload_.block[0], payload_.block[1], payload_.block[2]}; }
  unsigned shared_bytes() const { return payload_.shared_bytes; }
  void* function() const { return function_; }
  void** params() const { return params_; }
  /// Null unless the arguments are one buffer.
  void** extra() { return params_ == nullptr ? extra_.data() : nullptr; }

  hipKernelNodeParams node_params() {
    hipKernelNodeParams params{};
    params.func = function_;
    params.gridDim = grid();
    params.blockDim = block();
    params.sharedMemBytes = payload_.shared_bytes;
    params.kernelParams = params_;
    params.extra = extra();
    return params;
  }

 private:
  const KernelPayload& payload_;
  void* function_;
  std::array<void*, 32> few_;
  std::vector<void*> many_;
  void** params_;
  std::array<void*, 5> extra_;
  std::size_t bytes_ = 0;
};

/// The kernel's module may have gone, as a library's does by dlclose(), where nothing can be made real before it. What
/// stood for it must not reach the runtime: it takes a host stub that it does not know for a function.
bool is_gone(const Signature& signature) noexcept {
  return !functions().still_there(reinterpret_cast<const void*>(signature.object), signature.generation);
}

hipMemcpyKind copy_kind(const Signature& signature) { return static_cast<hipMemcpyKind>(signature.validity & 0xff); }
unsigned element_bytes(const Signature& signature) { return signature.validity & 0xff; }
void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

hipMemsetParams fill_params(const Signature& signature, const FillPayload& fill) {
  hipMemsetParams params{};
  params.dst = pointer(fill.dst);
  params.elementSize = element_bytes(signature);
  params.value = static_cast<unsigned>(fill.value);
  if (seeded_defect(Seeded::kFillNarrowed)) params.value &= 0xff;
  params.width = fill.width;
  params.height = fill.height;
  params.pitch = fill.pitch;
  return params;
}

hipMemcpy3DParms copy_params(const Signature& signature, const CopyPayload& copy) {
  hipMemcpy3DParms params{};
  params.srcPtr = {pointer(copy.src), copy.src_pitch, copy.width, copy.height};
  params.dstPtr = {pointer(copy.dst), copy.dst_pitch, copy.width, copy.height};
  params.extent = {copy.width, copy.height, 1};
  params.kind = copy_kind(signature);
  return params;
}

bool same_payload(const Operation& operation, const Binding& a, const Binding& b) noexcept {
  const std::uint32_t at = operation.payload_offset, bytes = operation.signature.payload_bytes;
  return bytes == 0 || std::memcmp(a.begin() + at, b.begin() + at, bytes) == 0;
}

/// Graphs that have served and were not destroyed then: before HIP 7 that would have taken the program's error away.
constinit std::array<std::atomic<hipGraph_t>, 16> g_left{};
constinit std::atomic<int> g_number_left{0};

bool leave(hipGraph_t graph) noexcept {
  for (std::atomic<hipGraph_t>& place : g_left) {
    hipGraph_t none = nullptr;
    if (!place.compare_exchange_strong(none, graph, std::memory_order_acq_rel)) continue;
    g_number_left.fetch_add(1, std::memory_order_release);
    return true;
  }
  return false;
}

}  // namespace

hipError_t reissue_into_stream(const Signature& signature, std::uint32_t offset, const ArgumentLayout* layout,
                               const Binding& binding, hipStream_t stream) {
  switch (signature.kind) {
    case OperationKind::kKernel: {
      if (is_gone(signature)) return hipErrorInvalidDeviceFunction;
      Launch launch(signature, offset, layout, binding);
      if (signature.form == KernelForm::kStub)
        return next().hipLaunchKernel(launch.function(), launch.grid(), launch.block(), launch.params(),
                                      launch.shared_bytes(), stream);
      const dim3 grid = launch.grid(), block = launch.block();
      return next().hipModuleLaunchKernel(static_cast<hipFunction_t>(launch.function()), grid.x, grid.y, grid.z,
                                          block.x, block.y, block.z, launch.shared_bytes(), stream, launch.params(),
                                          launch.extra());
    }
    case OperationKind::kCopy: {
      const auto& copy = payload_at<CopyPayload>(binding, offset);
      return next().hipMemcpyAsync(pointer(copy.dst), pointer(copy.src), copy.width, copy_kind(signature), stream);
    }
    case OperationKind::kCopy2D: {
      const auto& copy = payload_at<CopyPayload>(binding, offset);
      return next().hipMemcpy2DAsync(pointer(copy.dst), copy.dst_pitch, pointer(copy.src), copy.src_pitch, copy.width,
                                     copy.height, copy_kind(signature), stream);
    }
    case OperationKind::kFill: {
      const auto& fill = payload_at<FillPayload>(binding, offset);
      if (fill.height != 1)
        return next().hipMemset2DAsync(pointer(fill.dst), fill.pitch, static_cast<int>(fill.value), fill.width,
                                       fill.height, stream);
      switch (element_bytes(signature)) {
        case 2:
          return next().hipMemsetD16Async(pointer(fill.dst), static_cast<unsigned short>(fill.value), fill.width,
                                          stream);
        case 4:
          return next().hipMemsetD32Async(pointer(fill.dst), static_cast<int>(fill.value), fill.width, stream);
        default:
          return next().hipMemsetAsync(pointer(fill.dst), static_cast<int>(fill.value), fill.width, stream);
      }
    }
    case OperationKind::kHost:
      return next().hipLaunchHostFunc(stream, reinterpret_cast<hipHostFn_t>(signature.object),
                                      pointer(payload_at<HostPayload>(binding, offset).user));
    default:
      return hipErrorInvalidValue;
  }
}

hipError_t add_to_graph(const Operation& operation, const Binding& binding, hipGraph_t graph,
                        const std::vector<hipGraphNode_t>& after, hipGraphNode_t* node) {
  const Signature& signature = operation.signature;
  const std::uint32_t offset = operation.payload_offset;
  if (signature.kind == OperationKind::kChild)
    return with_graph(*operation.child, payload_of(operation, binding), [&](hipGraph_t child, const auto&) {
      const NodeCreation making;
      return next().hipGraphAddChildGraphNode(node, graph, after.data(), after.size(), child);
    });
  const NodeCreation making;
  switch (signature.kind) {
    case OperationKind::kKernel: {
      if (is_gone(signature)) return hipErrorInvalidDeviceFunction;
      Launch launch(signature, offset, operation.layout, binding);
      const hipKernelNodeParams params = launch.node_params();
      return next().hipGraphAddKernelNode(node, graph, after.data(), after.size(), &params);
    }
    case OperationKind::kCopy: {
      const auto& copy = payload_at<CopyPayload>(binding, offset);
      return next().hipGraphAddMemcpyNode1D(node, graph, after.data(), after.size(), pointer(copy.dst),
                                            pointer(copy.src), copy.width, copy_kind(signature));
    }
    case OperationKind::kCopy2D: {
      const hipMemcpy3DParms params = copy_params(signature, payload_at<CopyPayload>(binding, offset));
      return next().hipGraphAddMemcpyNode(node, graph, after.data(), after.size(), &params);
    }
    case OperationKind::kCopy3D:
      if ((signature.validity & kDriverStyle) != 0) {
        ParamsCopy copy;
        return next().hipDrvGraphAddMemcpyNode(node, graph, after.data(), after.size(),
                                               driver_copy(payload_at<Copy3DPayload>(binding, offset).params, &copy),
                                               static_cast<hipCtx_t>(pointer(signature.object)));
      }
      return next().hipGraphAddMemcpyNode(node, graph, after.data(), after.size(),
                                          &payload_at<Copy3DPayload>(binding, offset).params);
    case OperationKind::kEmpty:
      return next().hipGraphAddEmptyNode(node, graph, after.data(), after.size());
    case OperationKind::kFill: {
      const hipMemsetParams params = fill_params(signature, payload_at<FillPayload>(binding, offset));
      return next().hipGraphAddMemsetNode(node, graph, after.data(), after.size(), &params);
    }
    case OperationKind::kHost: {
      const hipHostNodeParams params{reinterpret_cast<hipHostFn_t>(signature.object),
                                     pointer(payload_at<HostPayload>(binding, offset).user)};
      return next().hipGraphAddHostNode(node, graph, after.data(), after.size(), &params);
    }
    default:
      return hipErrorInvalidValue;
  }
}

/// Between nodes that are there.
static hipError_t add_edges_to_graph(const Operation& edges, hipGraph_t graph,
                                     const std::vector<hipGraphNode_t>& nodes) {
  std::vector<hipGraphNode_t> from, to;
  for (std::size_t i = 0; i + 1 < edges.after.size(); i += 2) {
    from.push_back(nodes[edges.after[i]]);
    to.push_back(nodes[edges.after[i + 1]]);
  }
  return next().hipGraphAddDependencies(graph, from.data(), to.data(), from.size());
}

hipError_t add_all_to_graph(const std::vector<Operation>& operations, const Binding& binding, hipGraph_t graph,
                            const std::vector<hipGraphNode_t>& head, std::vector<hipGraphNode_t>* nodes) {
  const SavedDevice device;
  nodes->assign(operations.size(), nullptr);
  std::vector<hipGraphNode_t> after;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    if (operation.signature.kind == OperationKind::kEdges) {
      const hipError_t result = add_edges_to_graph(operation, graph, *nodes);
      if (result != hipSuccess) return result;
    }
    if (!makes_node(operation.signature.kind)) continue;
    after.clear();
    for (const std::uint32_t index : operation.after) after.push_back((*nodes)[index]);
    device.set(node_device_of(operation.signature));
    const hipError_t result = add_to_graph(operation, binding, graph, after.empty() ? head : after, &(*nodes)[i]);
    if (result != hipSuccess) return result;
  }
  return hipSuccess;
}

hipError_t build_graph(const std::vector<Operation>& operations, const Binding& binding, hipGraph_t* graph,
                       std::vector<hipGraphNode_t>* nodes) {
  const SavedDevice device;
  // The graph is that device's: an exec of another one's is not updated by it.
  if (!device.set(node_device_of(operations.front().signature))) return hipErrorInvalidDevice;
  hipError_t result = made_private(next().hipGraphCreate(graph, 0), graph);
  if (result != hipSuccess) return result;
  result = add_all_to_graph(operations, binding, *graph, {}, nodes);
  if (result != hipSuccess) {
    static_cast<void>(next().hipGraphDestroy(no_longer_private(*graph)));
    *graph = nullptr;
    nodes->clear();
  }
  return result;
}

// Probe set_node_reaches_next_exec.
bool graph_is_settable(const std::vector<Operation>& operations, const Binding& baked,
                       const Binding& binding) noexcept {
  return baked.size() == binding.size() &&
         std::all_of(operations.begin(), operations.end(), [&](const Operation& operation) {
           return same_payload(operation, baked, binding) || (operation.signature.kind == OperationKind::kKernel &&
                                                              patch_is_exact(NodeClass::kKernel, runtime_version()));
         });
}

bool set_graph(const std::vector<Operation>& operations, const Binding& binding,
               const std::vector<hipGraphNode_t>& nodes, Binding* baked) {
  const SavedDevice device;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    if (same_payload(operation, *baked, binding)) continue;
    if (is_gone(operation.signature)) return false;
    Launch launch(operation.signature, operation.payload_offset, operation.layout, binding);
    const hipKernelNodeParams params = launch.node_params();
    device.set(node_device_of(operation.signature));
    if (next().hipGraphKernelNodeSetParams(nodes[i], &params) != hipSuccess) return false;
  }
  *baked = binding;
  return true;
}

void let_go_of_graphs(bool destroy) noexcept {
  if (g_number_left.load(std::memory_order_acquire) == 0) return;
  for (std::atomic<hipGraph_t>& place : g_left) {
    const hipGraph_t graph = place.exchange(nullptr, std::memory_order_acq_rel);
    if (graph == nullptr) continue;
    g_number_left.fetch_sub(1, std::memory_order_relaxed);
    if (destroy) PrivateCalls::gave_back([&] { return next().hipGraphDestroy(no_longer_private(graph)); });
  }
}

hipError_t with_graph(const std::vector<Operation>& operations, const Binding& binding, GraphUse use) {
  hipGraph_t graph = nullptr;
  std::vector<hipGraphNode_t> nodes;
  {
    const PrivateCalls private_calls;
    let_go_of_graphs(true);
    const hipError_t failed = build_graph(operations, binding, &graph, &nodes);
    if (failed != hipSuccess) return failed;
  }
  const hipError_t result = use(graph, nodes);
  if (result != hipSuccess && runtime_version() < kKeepsErrors && leave(graph)) return result;
  const LastErrorScope last_error;
  PrivateCalls::gave_back([&] { return next().hipGraphDestroy(no_longer_private(graph)); });
  return result;
}

hipError_t patch_exec(const Operation& operation, const Binding& binding, hipGraphExec_t exec, hipGraphNode_t node) {
  const Signature& signature = operation.signature;
  const std::uint32_t offset = operation.payload_offset;
  switch (signature.kind) {
    case OperationKind::kKernel: {
      Launch launch(signature, offset, operation.layout, binding);
      const hipKernelNodeParams params = launch.node_params();
      return next().hipGraphExecKernelNodeSetParams(exec, node, &params);
    }
    case OperationKind::kCopy: {
      const auto& copy = payload_at<CopyPayload>(binding, offset);
      return next().hipGraphExecMemcpyNodeSetParams1D(exec, node, pointer(copy.dst), pointer(copy.src), copy.width,
                                                      copy_kind(signature));
    }
    case OperationKind::kCopy2D: {
      hipMemcpy3DParms params = copy_params(signature, payload_at<CopyPayload>(binding, offset));
      return next().hipGraphExecMemcpyNodeSetParams(exec, node, &params);
    }
    case OperationKind::kCopy3D: {
      hipMemcpy3DParms params = payload_at<Copy3DPayload>(binding, offset).params;
      if ((signature.validity & kDriverStyle) != 0) {
        ParamsCopy copy;
        return next().hipDrvGraphExecMemcpyNodeSetParams(exec, node, driver_copy(params, &copy),
                                                         static_cast<hipCtx_t>(pointer(signature.object)));
      }
      return next().hipGraphExecMemcpyNodeSetParams(exec, node, &params);
    }
    case OperationKind::kFill: {
      const hipMemsetParams params = fill_params(signature, payload_at<FillPayload>(binding, offset));
      return next().hipGraphExecMemsetNodeSetParams(exec, node, &params);
    }
    case OperationKind::kHost: {
      const hipHostNodeParams params{reinterpret_cast<hipHostFn_t>(signature.object),
                                     pointer(payload_at<HostPayload>(binding, offset).user)};
      return next().hipGraphExecHostNodeSetParams(exec, node, &params);
    }
    case OperationKind::kChild:
      return with_graph(*operation.child, payload_of(operation, binding), [&](hipGraph_t child, const auto&) {
        return next().hipGraphExecChildGraphNodeSetParams(exec, node, child);
      });
    default:
      return hipErrorInvalidValue;
  }
}

}  // namespace graphpool
