// graph_nodes.cpp: the entries that add nodes and that get and set what nodes do, in graphs and in execs.
//
// Each kind of node has one maker: from HIP's parameters to a NodeWork, with HIP's checks. Adding a node, setting its
// parameters and setting them in an exec differ only in what happens to the result.
#include <algorithm>
#include <cstring>
#include <limits>

#include "api.h"
#include "device.h"
#include "graph.h"
#include "graph_exec.h"
#include "kernel.h"
#include "memory.h"

namespace cpuhip {
namespace {

using NewWork = std::shared_ptr<NodeWork>;

NewWork new_work(NodeKind kind, int device) {
  auto work = std::make_shared<NodeWork>();
  work->kind = kind;
  work->device = device;
  return work;
}

hipError_t finish(Operation operation, NewWork made, NewWork* out) {
  const hipError_t valid = validate(operation, device(made->device));
  if (valid != hipSuccess) return valid;
  made->operation = std::move(operation);
  *out = std::move(made);
  return hipSuccess;
}

// --- Makers ---

hipError_t make_kernel(const hipKernelNodeParams* params, int ordinal, NewWork* out) {
  if (params == nullptr || params->func == nullptr) return hipErrorInvalidValue;
  KernelWork work;
  work.handle = params->func;
  work.kernel = find_kernel(params->func, quirks().current_device_stubs ? current_device() : device(ordinal));
  if (work.kernel == nullptr && quirks().stray_stubs && !is_stub(params->func))
    fatal("a host stub that is not registered is taken for a function");
  if (work.kernel == nullptr) return hipErrorInvalidDeviceFunction;
  work.grid = params->gridDim;
  work.block = params->blockDim;
  work.shared_bytes = params->sharedMemBytes;
  if (!within_shared_limit(*work.kernel, work.shared_bytes)) return hipErrorInvalidValue;
  const auto too_large = [](unsigned blocks, unsigned threads) {
    return std::uint64_t{blocks} * threads > std::numeric_limits<std::uint32_t>::max();
  };
  if (too_large(work.grid.x, work.block.x) || too_large(work.grid.y, work.block.y) ||
      too_large(work.grid.z, work.block.z)) {
    return hipErrorInvalidConfiguration;
  }
  const hipError_t packed = pack_arguments(*work.kernel, params->kernelParams, params->extra, &work.args);
  if (packed != hipSuccess) return packed;
  work.packed = params->kernelParams == nullptr && params->extra != nullptr;
  return finish(std::move(work), new_work(NodeKind::Kernel, ordinal), out);
}

hipError_t make_copy(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind, int ordinal, NewWork* out) {
  if (dst == nullptr || src == nullptr || bytes == 0) return hipErrorInvalidValue;
  AllocationInfo info;
  const bool from_known = find_allocation(src, &info), to_known = find_allocation(dst, &info);
  if (!from_known && to_known && kind != hipMemcpyHostToDevice && kind != hipMemcpyDefault) return hipErrorInvalidValue;
  if (from_known && !to_known && kind != hipMemcpyDeviceToHost && kind != hipMemcpyDefault) return hipErrorInvalidValue;
  CopyWork work;
  work.dst = dst;
  work.src = src;
  work.kind = kind;
  work.width = work.dst_pitch = work.src_pitch = bytes;
  work.dst_slice = work.src_slice = 1;
  return finish(work, new_work(NodeKind::Memcpy, ordinal), out);
}

hipError_t make_symbol_copy(CopyWork::Form form, void* dst, const void* src, const void* symbol, std::size_t bytes,
                            std::size_t offset, hipMemcpyKind kind, int ordinal, NewWork* out) {
  const bool to_symbol = form == CopyWork::Form::ToSymbol;
  if ((to_symbol ? src : dst) == nullptr || bytes == 0) return hipErrorInvalidValue;
  void* address = nullptr;
  std::size_t symbol_bytes = 0;
  const hipError_t resolved = resolve_symbol(symbol, device(ordinal), &address, &symbol_bytes);
  if (resolved != hipSuccess) return resolved;
  if (offset > symbol_bytes || bytes > symbol_bytes - offset) return hipErrorInvalidValue;
  address = static_cast<std::byte*>(address) + offset;
  CopyWork work;
  work.form = form;
  work.dst = to_symbol ? address : dst;
  work.src = to_symbol ? src : address;
  work.kind = kind;
  work.width = work.dst_pitch = work.src_pitch = bytes;
  work.dst_slice = work.src_slice = 1;
  work.symbol = symbol;
  work.offset = offset;
  return finish(work, new_work(NodeKind::Memcpy, ordinal), out);
}

std::byte* at(void* base, std::size_t pitch, std::size_t rows, std::size_t x, std::size_t y, std::size_t z) {
  return static_cast<std::byte*>(base) + (z * rows + y) * pitch + x;
}

hipError_t make_copy_3d(const hipMemcpy3DParms* params, int ordinal, NewWork* out) {
  if (params == nullptr) return hipErrorInvalidValue;
  const hipPitchedPtr &from = params->srcPtr, &to = params->dstPtr;
  if ((params->srcArray == nullptr) == (from.ptr == nullptr) || (params->dstArray == nullptr) == (to.ptr == nullptr)) {
    return hipErrorInvalidValue;
  }
  if (params->srcArray != nullptr || params->dstArray != nullptr) return hipErrorNotSupported;
  if (from.pitch < from.xsize || to.pitch < to.xsize) return hipErrorInvalidPitchValue;
  const hipExtent& extent = params->extent;
  if (extent.width + params->dstPos.x > to.pitch || extent.width + params->srcPos.x > from.pitch) {
    return hipErrorInvalidValue;
  }
  CopyWork work;
  work.form = CopyWork::Form::ThreeD;
  work.kind = params->kind;
  work.width = extent.width;
  work.height = extent.height;
  work.depth = extent.depth;
  work.dst_pitch = to.pitch;
  work.src_pitch = from.pitch;
  work.dst_slice = to.ysize != 0 ? to.ysize : extent.height;
  work.src_slice = from.ysize != 0 ? from.ysize : extent.height;
  work.dst = at(to.ptr, to.pitch, work.dst_slice, params->dstPos.x, params->dstPos.y, params->dstPos.z);
  work.src = at(from.ptr, from.pitch, work.src_slice, params->srcPos.x, params->srcPos.y, params->srcPos.z);
  NewWork made = new_work(NodeKind::Memcpy, ordinal);
  made->copy = std::make_shared<hipMemcpy3DParms>(*params);
  return finish(work, std::move(made), out);
}

/// The operand of a driver-style copy; null for arrays.
void* driver_operand(unsigned type, const void* host, hipDeviceptr_t on_device) {
  if (hipfront::is_array_type(type, config().version)) return nullptr;
  return hipfront::is_host_type(type, config().version) ? const_cast<void*>(host) : on_device;
}

hipError_t make_driver_copy(const HIP_MEMCPY3D* params, int ordinal, NewWork* out) {
  if (params == nullptr) return hipErrorInvalidValue;
  const hipfront::WideMemcpy3D p = hipfront::read_driver_copy(params, config().version);
  void* const from = driver_operand(static_cast<unsigned>(p.srcMemoryType), p.srcHost, p.srcDevice);
  void* const to = driver_operand(static_cast<unsigned>(p.dstMemoryType), p.dstHost, p.dstDevice);
  if (p.srcArray != nullptr || p.dstArray != nullptr) return hipErrorNotSupported;
  if (from == nullptr || to == nullptr) return hipErrorInvalidValue;
  CopyWork work;
  work.form = CopyWork::Form::ThreeD;
  work.width = p.WidthInBytes;
  work.height = p.Height;
  work.depth = p.Depth;
  work.dst_pitch = p.dstPitch != 0 ? p.dstPitch : work.width + p.dstXInBytes;
  work.src_pitch = p.srcPitch != 0 ? p.srcPitch : work.width + p.srcXInBytes;
  work.dst_slice = p.dstHeight != 0 ? p.dstHeight : work.height;
  work.src_slice = p.srcHeight != 0 ? p.srcHeight : work.height;
  if (work.width + p.dstXInBytes > work.dst_pitch || work.width + p.srcXInBytes > work.src_pitch) {
    return hipErrorInvalidValue;
  }
  work.dst = at(to, work.dst_pitch, work.dst_slice, p.dstXInBytes, p.dstY, p.dstZ);
  work.src = at(from, work.src_pitch, work.src_slice, p.srcXInBytes, p.srcY, p.srcZ);
  NewWork made = new_work(NodeKind::Memcpy, ordinal);
  made->driver_copy = std::make_shared<hipfront::WideMemcpy3D>(p);
  return finish(work, std::move(made), out);
}

hipError_t make_fill(const hipMemsetParams* params, int ordinal, NewWork* out) {
  if (params == nullptr || params->dst == nullptr || params->width == 0 || params->height == 0) {
    return hipErrorInvalidValue;
  }
  const unsigned element = params->elementSize;
  if (element != 1 && element != 2 && element != 4) return hipErrorInvalidValue;
  if (params->height > 1 && params->pitch < params->width * element) return hipErrorInvalidValue;
  AllocationInfo info;
  if (find_allocation(params->dst, &info) && params->pitch * params->height > info.bytes) return hipErrorInvalidValue;
  FillWork work;
  work.dst = params->dst;
  work.value = params->value;
  work.element_size = element;
  work.width = params->width;
  work.height = params->height;
  work.pitch = params->pitch;
  work.slice = params->height;
  return finish(work, new_work(NodeKind::Memset, ordinal), out);
}

hipError_t make_host(const hipHostNodeParams* params, int ordinal, NewWork* out) {
  if (params == nullptr || params->fn == nullptr) return hipErrorInvalidValue;
  return finish(HostWork{params->fn, params->userData}, new_work(NodeKind::Host, ordinal), out);
}

hipError_t make_event(NodeKind kind, hipEvent_t event, int ordinal, NewWork* out) {
  if (event == nullptr) return hipErrorInvalidValue;
  NewWork made = new_work(kind, ordinal);
  const hipError_t resolved = resolve(event, &made->event);
  if (resolved != hipSuccess) return resolved;
  *out = std::move(made);
  return hipSuccess;
}

/// HIP's alloc and free nodes came with 5.5 and work from 6.0 on.
bool has_memory_nodes() { return config().version >= 60000000; }

hipError_t make_alloc(hipfront::MemAllocNodeParams* params, NewWork* out) {
  if (params == nullptr) return hipErrorInvalidValue;
  if (!has_memory_nodes()) return hipErrorNotSupported;
  params->pointer = nullptr;
  const hipMemLocation& location = params->pool.location;
  if (params->bytes == 0 || params->pool.allocType != hipMemAllocationTypePinned ||
      location.type != hipMemLocationTypeDevice || location.id < 0 || location.id >= device_count()) {
    return hipErrorInvalidValue;
  }
  NewWork made = new_work(NodeKind::MemAlloc, location.id);
  const hipError_t result = GraphMemory::create(location.id, params->bytes, &made->memory);
  if (result != hipSuccess) return result;
  params->pointer = made->memory->pointer();
  *out = std::move(made);
  return hipSuccess;
}

/// `strict`: only memory of an alloc node that no free node frees yet.
hipError_t make_free(void* pointer, bool strict, int ordinal, NewWork* out) {
  if (pointer == nullptr) return hipErrorInvalidValue;
  if (!has_memory_nodes()) return hipErrorNotSupported;
  NewWork made = new_work(NodeKind::MemFree, ordinal);
  made->memory = find_graph_memory(pointer);
  made->freed = pointer;
  AllocationInfo info;
  if (made->memory != nullptr) {
    if (strict && made->memory->freed_by_node) return hipErrorInvalidValue;
    made->memory->freed_by_node = true;
  } else if (strict || !find_allocation(pointer, &info)) {
    return hipErrorInvalidValue;
  }
  *out = std::move(made);
  return hipSuccess;
}

// --- What happens to them ---

/// The arguments every call that adds a node begins with.
struct Place {
  hipGraphNode_t* node;
  hipGraph_t graph;
  const hipGraphNode_t* dependencies;
  std::size_t count;
};

template <typename Make>
hipError_t add(const Place& place, Make&& make) {
  if (place.node == nullptr || place.graph == nullptr || (place.count > 0 && place.dependencies == nullptr)) {
    return hipErrorInvalidValue;
  }
  NewWork work;
  const hipError_t made = make(current_device().ordinal(), &work);
  if (made != hipSuccess) return made;
  const std::lock_guard lock(graph_mutex());
  Graph* graph = find(place.graph);
  if (graph == nullptr) return hipErrorInvalidValue;
  GraphNode* node = nullptr;
  const hipError_t result =
      add_node(*graph, std::move(work), reinterpret_cast<GraphNode* const*>(place.dependencies), place.count, &node);
  if (result != hipSuccess) return result;
  node->manual = is_captured_into(*graph);
  *place.node = handle(node);
  return hipSuccess;
}

hipError_t add_child(const Place& place, hipGraph_t child_handle) {
  if (place.node == nullptr || place.graph == nullptr || (place.count > 0 && place.dependencies == nullptr)) {
    return hipErrorInvalidValue;
  }
  const std::lock_guard lock(graph_mutex());
  Graph* graph = find(place.graph);
  const Graph* original = find(child_handle);
  if (graph == nullptr || original == nullptr) return hipErrorInvalidValue;
  GraphNode* node = nullptr;
  hipError_t result = add_node(*graph, new_work(NodeKind::Graph, graph->device),
                               reinterpret_cast<GraphNode* const*>(place.dependencies), place.count, &node);
  if (result != hipSuccess) return result;
  node->manual = is_captured_into(*graph);
  node->child = clone_graph(*original);
  *place.node = handle(node);
  return hipSuccess;
}

/// Calls body(node) for a node of a kind, with graph_mutex() held.
template <typename Body>
hipError_t with_node(hipGraphNode_t handle, NodeKind kind, Body&& body) {
  const std::lock_guard lock(graph_mutex());
  GraphNode* node = find(handle);
  return node == nullptr || node->kind() != kind ? hipErrorInvalidValue : body(*node);
}

/// Sets what a node does. `fits(work)` says whether the call is the one for nodes made in this way.
template <typename Fits, typename Make>
hipError_t set(hipGraphNode_t handle, NodeKind kind, Fits&& fits, Make&& make) {
  return with_node(handle, kind, [&](GraphNode& node) {
    NewWork work;
    const hipError_t made = make(node.work->device, &work);
    if (made != hipSuccess) return made;
    if (quirks().fitting_calls && !fits(*node.work)) return hipSuccess;
    const hipError_t valid = check_change(*node.work, *work, WorkChange::Node);
    if (valid != hipSuccess) return valid;
    work->event = node.work->event != nullptr && kind == NodeKind::Kernel ? node.work->event : work->event;
    set_work(node, std::move(work));
    return hipSuccess;
  });
}

template <typename Fits, typename Make>
hipError_t set_in_exec(hipGraphExec_t exec, hipGraphNode_t handle, NodeKind kind, Fits&& fits, Make&& make) {
  return with_exec_node(exec, handle, [&](ExecState& state, const ExecNode& in_exec, GraphNode&) {
    if (in_exec.kind != kind) return hipErrorInvalidValue;
    const Work old_work = state.plan->works[in_exec.slot];
    // From HIP 7 on a kernel's node moves to the device that is current.
    const bool moves = kind == NodeKind::Kernel && config().version >= 70000000;
    NewWork work;
    const hipError_t made = make(moves ? current_device().ordinal() : old_work->device, &work);
    if (made != hipSuccess) return swallowed(made) ? hipSuccess : made;
    if (kind == NodeKind::Memcpy &&
        std::get<CopyWork>(work->operation).kind != std::get<CopyWork>(old_work->operation).kind) {
      return hipErrorInvalidValue;
    }
    if (quirks().fitting_calls && !fits(*old_work)) return hipSuccess;
    return set_exec_work(state, in_exec.slot, std::move(work), WorkChange::ExecNode);
  });
}

bool any_work(const NodeWork&) { return true; }
/// HIP keeps three kinds of copy node; a call for one kind writes into a part of the others that nobody reads.
bool is_copy_3d(const NodeWork& work) {
  return std::get<CopyWork>(work.operation).form == CopyWork::Form::ThreeD && work.driver_copy == nullptr;
}
bool is_driver_copy(const NodeWork& work) { return work.driver_copy != nullptr; }

bool same_memory_device(const void* a, const void* b) {
  AllocationInfo first, second;
  return !find_allocation(a, &first) || !find_allocation(b, &second) || first.device == second.device;
}

enum class CopyFamily { OneD, ThreeD, Driver, ToSymbol, FromSymbol };
CopyFamily family(const NodeWork& work) {
  if (work.driver_copy != nullptr) return CopyFamily::Driver;
  switch (std::get<CopyWork>(work.operation).form) {
    case CopyWork::Form::ThreeD:
      return CopyFamily::ThreeD;
    case CopyWork::Form::ToSymbol:
      return CopyFamily::ToSymbol;
    case CopyWork::Form::FromSymbol:
      return CopyFamily::FromSymbol;
    default:
      return CopyFamily::OneD;
  }
}

// --- Getting parameters ---

void get_kernel(GraphNode& node, hipKernelNodeParams* out) {
  if (!node.exposed) {
    if (node.work.use_count() > 1) node.work = std::make_shared<NodeWork>(*node.work);
    node.exposed = true;
  }
  auto& work = std::get<KernelWork>(node.work->operation);
  if (node.view == nullptr) {
    node.view = std::make_unique<KernelView>();
    KernelView& view = *node.view;
    for (const KernelArgument& argument : work.kernel->arguments) {
      view.params.push_back(work.args.data() + argument.offset);
    }
    view.params.push_back(nullptr);  // an address even for a kernel of no arguments
    view.extra_bytes = work.args.size();
    void* const extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, work.args.data(), HIP_LAUNCH_PARAM_BUFFER_SIZE,
                           &view.extra_bytes, HIP_LAUNCH_PARAM_END};
    std::copy(std::begin(extra), std::end(extra), view.extra);
  }
  *out = {};
  out->func = work.handle;
  out->gridDim = work.grid;
  out->blockDim = work.block;
  out->sharedMemBytes = work.shared_bytes;
  out->kernelParams = work.packed ? nullptr : node.view->params.data();
  out->extra = work.packed ? node.view->extra : nullptr;
}

/// Parameters that came from hipGraphKernelNodeGetParams: the arguments are the node's own, written in place or not.
bool is_own_view(const GraphNode& node, const hipKernelNodeParams& params) {
  return node.view != nullptr && ((params.kernelParams != nullptr && params.kernelParams == node.view->params.data()) ||
                                  (params.extra != nullptr && params.extra == node.view->extra));
}

hipError_t set_kernel(GraphNode& node, const hipKernelNodeParams* params) {
  NewWork work;
  const hipError_t made = make_kernel(params, node.work->device, &work);
  if (made != hipSuccess) return made;
  work->event = node.work->event;
  auto& current = std::get<KernelWork>(node.work->operation);
  auto& wanted = std::get<KernelWork>(work->operation);
  if (is_own_view(node, *params) && wanted.kernel == current.kernel) {
    std::copy(wanted.args.begin(), wanted.args.end(), current.args.begin());  // pointers into it stay good
    current.grid = wanted.grid;
    current.block = wanted.block;
    current.shared_bytes = wanted.shared_bytes;
    for (std::size_t i = 0; i < current.kernel->arguments.size(); ++i) {
      node.view->params[i] = current.args.data() + current.kernel->arguments[i].offset;
    }
    return hipSuccess;
  }
  set_work(node, std::move(work));
  return hipSuccess;
}

hipError_t get_copy_3d(const GraphNode& node, hipMemcpy3DParms* out) {
  const NodeWork& work = *node.work;
  const auto& copy = std::get<CopyWork>(work.operation);
  if (work.copy != nullptr) {
    *out = *work.copy;
    return hipSuccess;
  }
  if (quirks().fitting_calls && !is_copy_3d(work)) {
    std::memset(static_cast<void*>(out), 0xCD, sizeof *out);  // HIP 6.3 copies what was never written
    return hipSuccess;
  }
  *out = {};
  out->dstPtr = {copy.dst, copy.dst_pitch, copy.width, copy.dst_slice};
  out->srcPtr = {const_cast<void*>(copy.src), copy.src_pitch, copy.width, copy.src_slice};
  out->extent = {copy.width, copy.height, copy.depth};
  out->kind = copy.kind;
  return hipSuccess;
}

void get_fill(const GraphNode& node, hipMemsetParams* out) {
  const auto& fill = std::get<FillWork>(node.work->operation);
  *out = {};
  out->dst = fill.dst;
  out->elementSize = fill.element_size;
  out->height = fill.height;
  out->pitch = fill.pitch;
  out->value = fill.value;
  out->width = fill.width;
}

// --- The calls for any kind ---

/// The kind of hipGraphNodeParams' type, which is always of the newer numbering: the calls are.
bool kind_of(const hipfront::NodeParams& params, NodeKind* kind) {
  if (params.type == 10 || params.type == 11) {
    *kind = params.type == 10 ? NodeKind::MemAlloc : NodeKind::MemFree;
    return true;
  }
  *kind = static_cast<NodeKind>(params.type);
  return params.type >= 0 && params.type <= static_cast<int>(NodeKind::EventRecord) && *kind != NodeKind::Empty;
}

hipError_t make_any(NodeKind kind, hipfront::NodeParams& params, int ordinal, NewWork* out) {
  switch (kind) {
    case NodeKind::Kernel:
      return make_kernel(&params.kernel, ordinal, out);
    case NodeKind::Memcpy:
      return make_copy_3d(&params.memcpy.copy, ordinal, out);
    case NodeKind::Memset:
      return make_fill(&params.memset, ordinal, out);
    case NodeKind::Host:
      return make_host(&params.host, ordinal, out);
    case NodeKind::WaitEvent:
    case NodeKind::EventRecord:
      return make_event(kind, params.event, ordinal, out);
    case NodeKind::MemAlloc:
      return make_alloc(&params.alloc, out);
    case NodeKind::MemFree:
      return make_free(params.freed, false, ordinal, out);
    default:
      return hipErrorInvalidValue;
  }
}

hipMemsetParams to_runtime(const hipfront::MemsetNodeParams& params) {
  hipMemsetParams out = {};
  out.dst = params.dst;
  out.elementSize = params.element_size;
  out.height = params.height;
  out.pitch = params.pitch;
  out.value = params.value;
  out.width = params.width;
  return out;
}

/// The driver's fills took HIP_MEMSET_NODE_PARAMS up to 6.x.
hipMemsetParams driver_fill(const void* params) {
  if (config().version >= 70000000) return *static_cast<const hipMemsetParams*>(params);
  return to_runtime(*static_cast<const hipfront::MemsetNodeParams*>(params));
}

// --- Kernel attributes ---

hipError_t set_attribute(GraphNode& node, int attribute, const hipfront::KernelAttributeValue& value) {
  if (node.attributes == nullptr) node.attributes = std::make_unique<KernelAttributes>();
  KernelAttributes& attributes = *node.attributes;
  switch (attribute) {
    case hipfront::kAttributeAccessPolicyWindow: {
      const hipAccessPolicyWindow& window = value.window;
      if (window.hitRatio < 0 || window.hitRatio > 1 || window.missProp == hipAccessPropertyPersisting ||
          (window.num_bytes > 0 && window.hitRatio == 0)) {
        return hipErrorInvalidValue;
      }
      attributes.window = window;
      break;
    }
    case hipfront::kAttributeCooperative:
      attributes.cooperative = value.cooperative;
      break;
    case hipfront::kAttributePriority:
      if (value.priority < -1 || value.priority > 1) return hipErrorInvalidValue;
      attributes.priority = value.priority;
      break;
    default:
      return hipErrorInvalidValue;
  }
  attributes.in_use = attribute;
  return hipSuccess;
}

hipError_t get_attribute(const GraphNode& node, int attribute, hipfront::KernelAttributeValue* value) {
  const KernelAttributes none;
  const KernelAttributes& attributes = node.attributes != nullptr ? *node.attributes : none;
  if (attributes.in_use != 0 && attributes.in_use != attribute) return hipErrorInvalidValue;
  switch (attribute) {
    case hipfront::kAttributeAccessPolicyWindow:
      value->window = attributes.window;
      return hipSuccess;
    case hipfront::kAttributeCooperative:
      value->cooperative = attributes.cooperative;
      return hipSuccess;
    case hipfront::kAttributePriority:
      value->priority = attributes.priority;
      return hipSuccess;
    default:
      return hipErrorInvalidValue;
  }
}

hipError_t copy_attributes(const GraphNode& from, GraphNode& to) {
  const int source = from.attributes != nullptr ? from.attributes->in_use : 0;
  const int target = to.attributes != nullptr ? to.attributes->in_use : 0;
  if (source == 0 && target == 0) return hipSuccess;
  if (target != 0 && source != target) return hipErrorInvalidContext;
  to.attributes = std::make_unique<KernelAttributes>(*from.attributes);
  return hipSuccess;
}

}  // namespace

bool same_copy_class(const NodeWork& a, const NodeWork& b) {
  return std::get<CopyWork>(a.operation).kind == std::get<CopyWork>(b.operation).kind;
}

hipError_t check_change(const NodeWork& old_work, const NodeWork& new_work, WorkChange change) {
  if (new_work.kind == NodeKind::Memcpy && family(old_work) != family(new_work) &&
      (quirks().fitting_calls || change == WorkChange::Update)) {
    return hipErrorInvalidValue;
  }
  if (new_work.kind == NodeKind::Memset && change == WorkChange::ExecNode) {
    const auto &from = std::get<FillWork>(old_work.operation), &to = std::get<FillWork>(new_work.operation);
    if (!same_memory_device(from.dst, to.dst)) return hipErrorInvalidValue;
    const bool same_shape = from.width * from.element_size == to.width * to.element_size && from.height == to.height &&
                            from.depth == to.depth;
    if (to.height != 1 && !same_shape) return hipErrorInvalidValue;
  }
  if (new_work.kind == NodeKind::Memset && change != WorkChange::ExecNode) {
    // Held against a shape that only pitched memory has. By updates, too: only setting a node of an exec is spared.
    const auto& to = std::get<FillWork>(new_work.operation);
    AllocationInfo info;
    if (to.height != 1 && find_allocation(to.dst, &info) &&
        (to.width * to.element_size > info.width || to.height * to.depth > info.rows))
      return hipErrorInvalidValue;
  }
  const bool has_operation = new_work.kind <= NodeKind::Host || new_work.kind == NodeKind::ValueOp;
  return has_operation ? validate(new_work.operation, device(new_work.device)) : hipSuccess;
}

void copy_at_patch(const NodeWork& work) {
  if (work.kind != NodeKind::Memcpy) return;
  const auto& copy = std::get<CopyWork>(work.operation);
  AllocationInfo info;
  if (find_allocation(copy.dst, &info) || find_allocation(copy.src, &info)) return;
  (void)execute(work.operation, device(work.device));
}

}  // namespace cpuhip

using namespace cpuhip;

// --- Kernels ---

CPUHIP_EXPORT hipError_t hipGraphAddKernelNode(hipGraphNode_t* node, hipGraph_t graph,
                                               const hipGraphNode_t* dependencies, size_t count,
                                               const hipKernelNodeParams* params) {
  return api("hipGraphAddKernelNode", [&](Call&) {
    return add({node, graph, dependencies, count},
               [&](int ordinal, NewWork* out) { return make_kernel(params, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t node, hipKernelNodeParams* params) {
  return api("hipGraphKernelNodeGetParams", [&](Call&) {
    if (params == nullptr) return hipErrorInvalidValue;
    return with_node(node, NodeKind::Kernel, [&](GraphNode& found) {
      get_kernel(found, params);
      return hipSuccess;
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams* params) {
  return api("hipGraphKernelNodeSetParams", [&](Call&) {
    return with_node(node, NodeKind::Kernel, [&](GraphNode& found) { return set_kernel(found, params); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                         const hipKernelNodeParams* params) {
  return api("hipGraphExecKernelNodeSetParams", [&](Call&) {
    return set_in_exec(exec, node, NodeKind::Kernel, any_work, [&](int ordinal, NewWork* out) {
      const hipError_t made = make_kernel(params, ordinal, out);
      if (made == hipSuccess && quirks().kept_arguments) (*out)->kept_arguments = params->kernelParams;
      return made;
    });
  });
}

/// Attribute ids and values are hipLaunchAttributeID and hipLaunchAttributeValue, which the oldest header names
/// otherwise.
extern "C++" hipError_t cpuhip_kernel_attribute(const char* name, hipGraphNode_t node, const void* value, auto&& body) {
  return api(name,
             [&](Call&) { return value == nullptr ? hipErrorInvalidValue : with_node(node, NodeKind::Kernel, body); });
}
CPUHIP_EXPORT hipError_t hipGraphKernelNodeSetAttribute(hipGraphNode_t node, hipKernelNodeAttrID attribute,
                                                        const hipKernelNodeAttrValue* value) {
  return cpuhip_kernel_attribute("hipGraphKernelNodeSetAttribute", node, value, [&](GraphNode& found) {
    return set_attribute(found, static_cast<int>(attribute),
                         *reinterpret_cast<const hipfront::KernelAttributeValue*>(value));
  });
}
CPUHIP_EXPORT hipError_t hipGraphKernelNodeGetAttribute(hipGraphNode_t node, hipKernelNodeAttrID attribute,
                                                        hipKernelNodeAttrValue* value) {
  return cpuhip_kernel_attribute("hipGraphKernelNodeGetAttribute", node, value, [&](GraphNode& found) {
    return get_attribute(found, static_cast<int>(attribute), reinterpret_cast<hipfront::KernelAttributeValue*>(value));
  });
}

CPUHIP_EXPORT hipError_t hipGraphKernelNodeCopyAttributes(hipGraphNode_t from, hipGraphNode_t to) {
  return api("hipGraphKernelNodeCopyAttributes", [&](Call&) {
    return with_node(to, NodeKind::Kernel, [&](GraphNode& target) {
      const GraphNode* source = find(from);
      if (source == nullptr || source->kind() != NodeKind::Kernel) return hipErrorInvalidValue;
      return copy_attributes(*source, target);
    });
  });
}

// --- Copies ---

CPUHIP_EXPORT hipError_t hipGraphAddMemcpyNode(hipGraphNode_t* node, hipGraph_t graph,
                                               const hipGraphNode_t* dependencies, size_t count,
                                               const hipMemcpy3DParms* params) {
  return api("hipGraphAddMemcpyNode", [&](Call&) {
    return add({node, graph, dependencies, count},
               [&](int ordinal, NewWork* out) { return make_copy_3d(params, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphMemcpyNodeGetParams(hipGraphNode_t node, hipMemcpy3DParms* params) {
  return api("hipGraphMemcpyNodeGetParams", [&](Call&) {
    if (params == nullptr) return hipErrorInvalidValue;
    return with_node(node, NodeKind::Memcpy, [&](GraphNode& found) { return get_copy_3d(found, params); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphMemcpyNodeSetParams(hipGraphNode_t node, const hipMemcpy3DParms* params) {
  return api("hipGraphMemcpyNodeSetParams", [&](Call&) {
    return set(node, NodeKind::Memcpy, is_copy_3d,
               [&](int ordinal, NewWork* out) { return make_copy_3d(params, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphExecMemcpyNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                         hipMemcpy3DParms* params) {
  return api("hipGraphExecMemcpyNodeSetParams", [&](Call&) {
    return set_in_exec(exec, node, NodeKind::Memcpy, is_copy_3d,
                       [&](int ordinal, NewWork* out) { return make_copy_3d(params, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t* node, hipGraph_t graph,
                                                 const hipGraphNode_t* dependencies, size_t count, void* dst,
                                                 const void* src, size_t bytes, hipMemcpyKind kind) {
  return api("hipGraphAddMemcpyNode1D", [&](Call&) {
    return add({node, graph, dependencies, count},
               [&](int ordinal, NewWork* out) { return make_copy(dst, src, bytes, kind, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void* dst, const void* src, size_t bytes,
                                                       hipMemcpyKind kind) {
  return api("hipGraphMemcpyNodeSetParams1D", [&](Call&) {
    if (src == dst) return hipErrorInvalidValue;
    return set(node, NodeKind::Memcpy, any_work,
               [&](int ordinal, NewWork* out) { return make_copy(dst, src, bytes, kind, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t exec, hipGraphNode_t node, void* dst,
                                                           const void* src, size_t bytes, hipMemcpyKind kind) {
  return api("hipGraphExecMemcpyNodeSetParams1D", [&](Call&) {
    if (src == dst) return hipErrorInvalidValue;
    return set_in_exec(exec, node, NodeKind::Memcpy, any_work,
                       [&](int ordinal, NewWork* out) { return make_copy(dst, src, bytes, kind, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphAddMemcpyNodeToSymbol(hipGraphNode_t* node, hipGraph_t graph,
                                                       const hipGraphNode_t* dependencies, size_t count,
                                                       const void* symbol, const void* src, size_t bytes, size_t offset,
                                                       hipMemcpyKind kind) {
  return api("hipGraphAddMemcpyNodeToSymbol", [&](Call&) {
    return add({node, graph, dependencies, count}, [&](int ordinal, NewWork* out) {
      return make_symbol_copy(CopyWork::Form::ToSymbol, nullptr, src, symbol, bytes, offset, kind, ordinal, out);
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphMemcpyNodeSetParamsToSymbol(hipGraphNode_t node, const void* symbol, const void* src,
                                                             size_t bytes, size_t offset, hipMemcpyKind kind) {
  return api("hipGraphMemcpyNodeSetParamsToSymbol", [&](Call&) {
    if (symbol == nullptr) return hipErrorInvalidSymbol;
    if (symbol == src) return hipErrorInvalidValue;
    return set(node, NodeKind::Memcpy, any_work, [&](int ordinal, NewWork* out) {
      return make_symbol_copy(CopyWork::Form::ToSymbol, nullptr, src, symbol, bytes, offset, kind, ordinal, out);
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphExecMemcpyNodeSetParamsToSymbol(hipGraphExec_t exec, hipGraphNode_t node,
                                                                 const void* symbol, const void* src, size_t bytes,
                                                                 size_t offset, hipMemcpyKind kind) {
  return api("hipGraphExecMemcpyNodeSetParamsToSymbol", [&](Call&) {
    if (symbol == nullptr) return hipErrorInvalidSymbol;
    if (symbol == src) return hipErrorInvalidValue;
    return set_in_exec(exec, node, NodeKind::Memcpy, any_work, [&](int ordinal, NewWork* out) {
      return make_symbol_copy(CopyWork::Form::ToSymbol, nullptr, src, symbol, bytes, offset, kind, ordinal, out);
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphAddMemcpyNodeFromSymbol(hipGraphNode_t* node, hipGraph_t graph,
                                                         const hipGraphNode_t* dependencies, size_t count, void* dst,
                                                         const void* symbol, size_t bytes, size_t offset,
                                                         hipMemcpyKind kind) {
  return api("hipGraphAddMemcpyNodeFromSymbol", [&](Call&) {
    return add({node, graph, dependencies, count}, [&](int ordinal, NewWork* out) {
      return make_symbol_copy(CopyWork::Form::FromSymbol, dst, nullptr, symbol, bytes, offset, kind, ordinal, out);
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphMemcpyNodeSetParamsFromSymbol(hipGraphNode_t node, void* dst, const void* symbol,
                                                               size_t bytes, size_t offset, hipMemcpyKind kind) {
  return api("hipGraphMemcpyNodeSetParamsFromSymbol", [&](Call&) {
    if (symbol == nullptr) return hipErrorInvalidSymbol;
    if (symbol == dst) return hipErrorInvalidValue;
    return set(node, NodeKind::Memcpy, any_work, [&](int ordinal, NewWork* out) {
      return make_symbol_copy(CopyWork::Form::FromSymbol, dst, nullptr, symbol, bytes, offset, kind, ordinal, out);
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphExecMemcpyNodeSetParamsFromSymbol(hipGraphExec_t exec, hipGraphNode_t node, void* dst,
                                                                   const void* symbol, size_t bytes, size_t offset,
                                                                   hipMemcpyKind kind) {
  return api("hipGraphExecMemcpyNodeSetParamsFromSymbol", [&](Call&) {
    if (symbol == nullptr) return hipErrorInvalidSymbol;
    if (symbol == dst) return hipErrorInvalidValue;
    return set_in_exec(exec, node, NodeKind::Memcpy, any_work, [&](int ordinal, NewWork* out) {
      return make_symbol_copy(CopyWork::Form::FromSymbol, dst, nullptr, symbol, bytes, offset, kind, ordinal, out);
    });
  });
}

CPUHIP_EXPORT hipError_t hipDrvGraphAddMemcpyNode(hipGraphNode_t* node, hipGraph_t graph,
                                                  const hipGraphNode_t* dependencies, size_t count,
                                                  const HIP_MEMCPY3D* params, hipCtx_t context) {
  return api("hipDrvGraphAddMemcpyNode", [&](Call&) {
    if (context == nullptr) return hipErrorInvalidValue;
    return add({node, graph, dependencies, count},
               [&](int ordinal, NewWork* out) { return make_driver_copy(params, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipDrvGraphMemcpyNodeGetParams(hipGraphNode_t node, HIP_MEMCPY3D* params) {
  return api("hipDrvGraphMemcpyNodeGetParams", [&](Call&) {
    if (params == nullptr) return hipErrorInvalidValue;
    return with_node(node, NodeKind::Memcpy, [&](GraphNode& found) {
      if (found.work->driver_copy == nullptr) return hipErrorInvalidValue;
      hipfront::write_driver_copy(*found.work->driver_copy, config().version, params);
      return hipSuccess;
    });
  });
}

CPUHIP_EXPORT hipError_t hipDrvGraphMemcpyNodeSetParams(hipGraphNode_t node, const HIP_MEMCPY3D* params) {
  return api("hipDrvGraphMemcpyNodeSetParams", [&](Call&) {
    return set(node, NodeKind::Memcpy, is_driver_copy,
               [&](int ordinal, NewWork* out) { return make_driver_copy(params, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipDrvGraphExecMemcpyNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                            const HIP_MEMCPY3D* params, hipCtx_t) {
  return api("hipDrvGraphExecMemcpyNodeSetParams", [&](Call&) {
    return set_in_exec(exec, node, NodeKind::Memcpy, is_driver_copy,
                       [&](int ordinal, NewWork* out) { return make_driver_copy(params, ordinal, out); });
  });
}

// --- Fills ---

CPUHIP_EXPORT hipError_t hipGraphAddMemsetNode(hipGraphNode_t* node, hipGraph_t graph,
                                               const hipGraphNode_t* dependencies, size_t count,
                                               const hipMemsetParams* params) {
  return api("hipGraphAddMemsetNode", [&](Call&) {
    return add({node, graph, dependencies, count},
               [&](int ordinal, NewWork* out) { return make_fill(params, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t node, hipMemsetParams* params) {
  return api("hipGraphMemsetNodeGetParams", [&](Call&) {
    if (params == nullptr) return hipErrorInvalidValue;
    return with_node(node, NodeKind::Memset, [&](GraphNode& found) {
      get_fill(found, params);
      return hipSuccess;
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams* params) {
  return api("hipGraphMemsetNodeSetParams", [&](Call&) {
    return set(node, NodeKind::Memset, any_work,
               [&](int ordinal, NewWork* out) { return make_fill(params, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                         const hipMemsetParams* params) {
  return api("hipGraphExecMemsetNodeSetParams", [&](Call&) {
    return set_in_exec(exec, node, NodeKind::Memset, any_work,
                       [&](int ordinal, NewWork* out) { return make_fill(params, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipDrvGraphAddMemsetNode(hipGraphNode_t* node, hipGraph_t graph,
                                                  const hipGraphNode_t* dependencies, size_t count, const void* params,
                                                  hipCtx_t) {
  return api("hipDrvGraphAddMemsetNode", [&](Call&) {
    if (params == nullptr) return hipErrorInvalidValue;
    const hipMemsetParams fill = driver_fill(params);
    return add({node, graph, dependencies, count},
               [&](int ordinal, NewWork* out) { return make_fill(&fill, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipDrvGraphExecMemsetNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                            const void* params, hipCtx_t) {
  return api("hipDrvGraphExecMemsetNodeSetParams", [&](Call&) {
    if (params == nullptr) return hipErrorInvalidValue;
    const hipMemsetParams fill = driver_fill(params);
    return set_in_exec(exec, node, NodeKind::Memset, any_work,
                       [&](int ordinal, NewWork* out) { return make_fill(&fill, ordinal, out); });
  });
}

// --- Host functions ---

CPUHIP_EXPORT hipError_t hipGraphAddHostNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                             size_t count, const hipHostNodeParams* params) {
  return api("hipGraphAddHostNode", [&](Call&) {
    return add({node, graph, dependencies, count},
               [&](int ordinal, NewWork* out) { return make_host(params, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphHostNodeGetParams(hipGraphNode_t node, hipHostNodeParams* params) {
  return api("hipGraphHostNodeGetParams", [&](Call&) {
    if (params == nullptr) return hipErrorInvalidValue;
    return with_node(node, NodeKind::Host, [&](GraphNode& found) {
      const auto& work = std::get<HostWork>(found.work->operation);
      *params = {work.fn, work.user};
      return hipSuccess;
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphHostNodeSetParams(hipGraphNode_t node, const hipHostNodeParams* params) {
  return api("hipGraphHostNodeSetParams", [&](Call&) {
    return set(node, NodeKind::Host, any_work,
               [&](int ordinal, NewWork* out) { return make_host(params, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                       const hipHostNodeParams* params) {
  return api("hipGraphExecHostNodeSetParams", [&](Call&) {
    return set_in_exec(exec, node, NodeKind::Host, any_work,
                       [&](int ordinal, NewWork* out) { return make_host(params, ordinal, out); });
  });
}

// --- Empty and child nodes ---

CPUHIP_EXPORT hipError_t hipGraphAddEmptyNode(hipGraphNode_t* node, hipGraph_t graph,
                                              const hipGraphNode_t* dependencies, size_t count) {
  return api("hipGraphAddEmptyNode", [&](Call&) {
    return add({node, graph, dependencies, count}, [&](int ordinal, NewWork* out) {
      *out = new_work(NodeKind::Empty, ordinal);
      return hipSuccess;
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphAddChildGraphNode(hipGraphNode_t* node, hipGraph_t graph,
                                                   const hipGraphNode_t* dependencies, size_t count, hipGraph_t child) {
  return api("hipGraphAddChildGraphNode", [&](Call&) { return add_child({node, graph, dependencies, count}, child); });
}

CPUHIP_EXPORT hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t* graph) {
  return api("hipGraphChildGraphNodeGetGraph", [&](Call&) {
    if (graph == nullptr) return hipErrorInvalidValue;
    return with_node(node, NodeKind::Graph, [&](GraphNode& found) {
      *graph = handle(found.child);
      return hipSuccess;
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphExecChildGraphNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                             hipGraph_t child_handle) {
  return api("hipGraphExecChildGraphNodeSetParams", [&](Call&) {
    return with_exec_node(exec, node, [&](ExecState& state, const ExecNode& in_exec, GraphNode& found) {
      const Graph* child = find(child_handle);
      if (child == nullptr) return hipErrorInvalidValue;
      if (child == found.graph) return hipErrorUnknown;
      return set_exec_child(state, in_exec, *child);
    });
  });
}

// --- Events ---

CPUHIP_EXPORT hipError_t hipGraphAddEventRecordNode(hipGraphNode_t* node, hipGraph_t graph,
                                                    const hipGraphNode_t* dependencies, size_t count,
                                                    hipEvent_t event) {
  return api("hipGraphAddEventRecordNode", [&](Call&) {
    return add({node, graph, dependencies, count},
               [&](int ordinal, NewWork* out) { return make_event(NodeKind::EventRecord, event, ordinal, out); });
  });
}
CPUHIP_EXPORT hipError_t hipGraphAddEventWaitNode(hipGraphNode_t* node, hipGraph_t graph,
                                                  const hipGraphNode_t* dependencies, size_t count, hipEvent_t event) {
  return api("hipGraphAddEventWaitNode", [&](Call&) {
    return add({node, graph, dependencies, count},
               [&](int ordinal, NewWork* out) { return make_event(NodeKind::WaitEvent, event, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphEventRecordNodeGetEvent(hipGraphNode_t node, hipEvent_t* event) {
  return api("hipGraphEventRecordNodeGetEvent", [&](Call&) {
    if (event == nullptr) return hipErrorInvalidValue;
    return with_node(node, NodeKind::EventRecord, [&](GraphNode& found) {
      *event = found.work->event;
      return hipSuccess;
    });
  });
}
CPUHIP_EXPORT hipError_t hipGraphEventWaitNodeGetEvent(hipGraphNode_t node, hipEvent_t* event) {
  return api("hipGraphEventWaitNodeGetEvent", [&](Call&) {
    if (event == nullptr) return hipErrorInvalidValue;
    return with_node(node, NodeKind::WaitEvent, [&](GraphNode& found) {
      *event = found.work->event;
      return hipSuccess;
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphEventRecordNodeSetEvent(hipGraphNode_t node, hipEvent_t event) {
  return api("hipGraphEventRecordNodeSetEvent", [&](Call&) {
    return set(node, NodeKind::EventRecord, any_work,
               [&](int ordinal, NewWork* out) { return make_event(NodeKind::EventRecord, event, ordinal, out); });
  });
}
CPUHIP_EXPORT hipError_t hipGraphEventWaitNodeSetEvent(hipGraphNode_t node, hipEvent_t event) {
  return api("hipGraphEventWaitNodeSetEvent", [&](Call&) {
    return set(node, NodeKind::WaitEvent, any_work,
               [&](int ordinal, NewWork* out) { return make_event(NodeKind::WaitEvent, event, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphExecEventRecordNodeSetEvent(hipGraphExec_t exec, hipGraphNode_t node,
                                                             hipEvent_t event) {
  return api("hipGraphExecEventRecordNodeSetEvent", [&](Call&) {
    return set_in_exec(exec, node, NodeKind::EventRecord, any_work, [&](int ordinal, NewWork* out) {
      return make_event(NodeKind::EventRecord, event, ordinal, out);
    });
  });
}
CPUHIP_EXPORT hipError_t hipGraphExecEventWaitNodeSetEvent(hipGraphExec_t exec, hipGraphNode_t node, hipEvent_t event) {
  return api("hipGraphExecEventWaitNodeSetEvent", [&](Call&) {
    return set_in_exec(exec, node, NodeKind::WaitEvent, any_work,
                       [&](int ordinal, NewWork* out) { return make_event(NodeKind::WaitEvent, event, ordinal, out); });
  });
}

// --- Memory ---

CPUHIP_EXPORT hipError_t hipGraphAddMemAllocNode(hipGraphNode_t* node, hipGraph_t graph,
                                                 const hipGraphNode_t* dependencies, size_t count,
                                                 hipfront::MemAllocNodeParams* params) {
  return api("hipGraphAddMemAllocNode", [&](Call&) {
    return add({node, graph, dependencies, count}, [&](int, NewWork* out) { return make_alloc(params, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphMemAllocNodeGetParams(hipGraphNode_t node, hipfront::MemAllocNodeParams* params) {
  return api("hipGraphMemAllocNodeGetParams", [&](Call&) {
    if (params == nullptr) return hipErrorInvalidValue;
    return with_node(node, NodeKind::MemAlloc, [&](GraphNode& found) {
      *params = {};
      params->pool.allocType = hipMemAllocationTypePinned;
      params->pool.location = {hipMemLocationTypeDevice, found.work->memory->device()};
      params->bytes = found.work->memory->bytes();
      params->pointer = found.work->memory->pointer();
      return hipSuccess;
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphAddMemFreeNode(hipGraphNode_t* node, hipGraph_t graph,
                                                const hipGraphNode_t* dependencies, size_t count, void* pointer) {
  return api("hipGraphAddMemFreeNode", [&](Call&) {
    if (dependencies != nullptr && count == 0) return hipErrorInvalidValue;
    return add({node, graph, dependencies, count},
               [&](int ordinal, NewWork* out) { return make_free(pointer, true, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipDrvGraphAddMemFreeNode(hipGraphNode_t* node, hipGraph_t graph,
                                                   const hipGraphNode_t* dependencies, size_t count,
                                                   hipDeviceptr_t pointer) {
  return api("hipDrvGraphAddMemFreeNode", [&](Call&) {
    if (dependencies != nullptr && count == 0) return hipErrorInvalidValue;
    return add({node, graph, dependencies, count},
               [&](int ordinal, NewWork* out) { return make_free(pointer, false, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphMemFreeNodeGetParams(hipGraphNode_t node, void* pointer) {
  return api("hipGraphMemFreeNodeGetParams", [&](Call&) {
    if (pointer == nullptr) return hipErrorInvalidValue;
    return with_node(node, NodeKind::MemFree, [&](GraphNode& found) {
      *static_cast<void**>(pointer) = found.work->freed;
      return hipSuccess;
    });
  });
}

// --- Nodes of any kind ---

CPUHIP_EXPORT hipError_t hipGraphAddNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                         size_t count, hipfront::NodeParams* params) {
  return api("hipGraphAddNode", [&](Call&) {
    if (params == nullptr) return hipErrorInvalidValue;
    NodeKind kind;
    if (!kind_of(*params, &kind)) {
      return params->type == 8 || params->type == 9 ? hipErrorNotSupported : hipErrorInvalidValue;  // semaphores
    }
    if (kind == NodeKind::Graph) return add_child({node, graph, dependencies, count}, params->graph);
    return add({node, graph, dependencies, count},
               [&](int ordinal, NewWork* out) { return make_any(kind, *params, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphNodeSetParams(hipGraphNode_t node, hipfront::NodeParams* params) {
  return api("hipGraphNodeSetParams", [&](Call&) {
    NodeKind kind;
    if (params == nullptr || !kind_of(*params, &kind)) return hipErrorInvalidValue;
    if (kind == NodeKind::MemAlloc || kind == NodeKind::MemFree || kind == NodeKind::Graph) return hipErrorNotSupported;
    if (kind == NodeKind::Kernel) {
      return with_node(node, kind, [&](GraphNode& found) { return set_kernel(found, &params->kernel); });
    }
    return set(node, kind, kind == NodeKind::Memcpy ? is_copy_3d : any_work,
               [&](int ordinal, NewWork* out) { return make_any(kind, *params, ordinal, out); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphExecNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                   hipfront::NodeParams* params) {
  return api("hipGraphExecNodeSetParams", [&](Call&) {
    NodeKind kind;
    if (params == nullptr || !kind_of(*params, &kind)) return hipErrorInvalidValue;
    if (kind == NodeKind::MemAlloc || kind == NodeKind::MemFree) return hipErrorNotSupported;
    if (kind == NodeKind::Graph) {
      return with_exec_node(exec, node, [&](ExecState& state, const ExecNode& in_exec, GraphNode&) {
        const Graph* child = find(params->graph);
        return child == nullptr ? hipErrorInvalidValue : set_exec_child(state, in_exec, *child);
      });
    }
    return set_in_exec(exec, node, kind, kind == NodeKind::Memcpy ? is_copy_3d : any_work,
                       [&](int ordinal, NewWork* out) { return make_any(kind, *params, ordinal, out); });
  });
}
