// calls.cpp: one operation as the calls that enqueue or capture it, put it into a graph, or change it there.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "machine.h"

// In a header of their own.
extern "C" {
hipError_t hipMemcpyAsync_spt(void*, const void*, size_t, hipMemcpyKind, hipStream_t);
hipError_t hipMemsetAsync_spt(void*, int, size_t, hipStream_t);
hipError_t hipLaunchKernel_spt(const void*, dim3, dim3, void**, size_t, hipStream_t);
hipError_t hipExtLaunchKernel(const void*, dim3, dim3, void**, size_t, hipStream_t, hipEvent_t, hipEvent_t, int);
}

namespace property {
namespace {

/// What a host operation of a graph or stream does with its memory.
void bump(void* user) {
  int* const value = static_cast<int*>(user);
  *value = static_cast<int>(static_cast<unsigned>(*value) * 31 + 7);
}

}  // namespace

hipMemcpyKind Machine::copy_kind(const Work& work) const {
  if (work.form == Work::kBad + 2) return static_cast<hipMemcpyKind>(77);
  if ((work.form & 1) != 0) return hipMemcpyDefault;
  const bool to = buffer(work.dst).on_host(), from = buffer(work.src).on_host();
  return to     ? (from ? hipMemcpyHostToHost : hipMemcpyDeviceToHost)
         : from ? hipMemcpyHostToDevice
                : hipMemcpyDeviceToDevice;
}

template <typename Body>
hipError_t Machine::with_kernel(const Work& work, Body&& body) {
  const int count = work.what == Work::Nothing ? 0 : static_cast<int>(count_of(work));
  int* const dst = work.what == Work::Nothing ? nullptr : address(work.dst, work.first);
  const int* const src =
      work.what == Work::Join || work.what == Work::Peer ? address(work.src, work.src_first) : nullptr;
  auto own = std::make_unique<Arguments>(work, dst, src, count);
  Arguments& arguments = *own;
  unsigned block = 64u >> (work.form >> 1 & 3);
  if (work.form == Work::kBad) block = 0;
  if (work.form == Work::kBad + 1) block = 2048;
  const unsigned wanted = block == 0 ? 1 : (static_cast<unsigned>(count) + block - 1) / block;
  const dim3 grid(std::max(1u, wanted) + static_cast<unsigned>(work.form >> 3 & 1));
  unsigned shared = work.what == Work::Shared ? block * static_cast<unsigned>(sizeof(int)) : 0;
  if (work.form == Work::kBad + 3) shared = 1u << 20;
  const hipError_t result = body(arguments, grid, dim3(block), shared);
  static auto& kept = *new std::vector<std::unique_ptr<Arguments>>;
  if (arguments.stays()) kept.push_back(std::move(own));
  return result;
}

hipFunction_t Machine::loaded_function(const Work& work, int device) const {
  return work.module() < 0 ? kernels_.get(work.what, device)
                           : module(work.module()).functions[static_cast<std::size_t>(work.what)];
}

/// As nodes name it.
void* Machine::function_of(const Work& work, int device) const {
  return work.by_stub() && device == acting_device_ ? const_cast<void*>(Kernels::stub(work.what))
                                                    : loaded_function(work, device);
}

hipError_t Machine::issue(const Work& asked, Stream& stream, std::int64_t number) {
  Work work = asked;
  // What is to be refused must be: fills know two ways to be wrong, copies three.
  const std::int64_t wrong = work.what == Work::Copy || work.what == Work::Copy2D ? 3 : 2;
  if (work.bad() && !work.kernel()) work.form = Work::kBad + (work.form - Work::kBad) % wrong;
  const bool per_thread = number == kPerThread;
  const hipStream_t handle = number == kLegacy ? kLegacyHandle : per_thread ? hipStreamPerThread : stream.handle;
  const bool spt = per_thread && work.value % 2 != 0;
  const std::size_t ints = work.what == Work::Nothing ? 0 : count_of(work);
  const std::size_t bytes = (work.form == Work::kBad ? buffer(work.dst).bytes() + 4096 : ints * sizeof(int));
  const auto region =
      static_cast<std::size_t>(work.parts * buffer(work.dst).part_ints);  // ints; bytes of a row of four
  const auto fraction = static_cast<std::size_t>(work.quarter);
  void* const dst = work.form == Work::kBad + 1  ? nullptr
                    : work.what == Work::Nothing ? nullptr
                                                 : address(work.dst, work.first);
  const int value = static_cast<int>(work.value);
  switch (work.what) {
    case Work::Copy: {
      const void* const src = address(work.src, work.src_first);
      const hipMemcpyKind kind = copy_kind(work);
      if (spt) return hipMemcpyAsync_spt(dst, src, bytes, kind, nullptr);
      if ((work.form & 2) != 0 && !work.bad()) {
        switch (kind) {
          case hipMemcpyDeviceToDevice:
            return hipMemcpyDtoDAsync(dst, const_cast<void*>(src), bytes, handle);
          case hipMemcpyHostToDevice:
            return hipMemcpyHtoDAsync(dst, const_cast<void*>(src), bytes, handle);
          case hipMemcpyDeviceToHost:
            return hipMemcpyDtoHAsync(dst, const_cast<void*>(src), bytes, handle);
          default:
            break;
        }
      }
      return hipMemcpyAsync(dst, src, bytes, kind, handle);
    }
    case Work::Copy2D:
      return hipMemcpy2DAsync(dst, work.form == Work::kBad ? 1 : region, address(work.src, work.src_first), region,
                              region * fraction / 4, 4, copy_kind(work), handle);
    case Work::Fill8:
      if (spt) return hipMemsetAsync_spt(dst, value, bytes, nullptr);
      return hipMemsetAsync(dst, value, bytes, handle);
    case Work::Fill16:
      return hipMemsetD16Async(dst, static_cast<unsigned short>(value), bytes / 2, handle);
    case Work::Fill32:
      return hipMemsetD32Async(dst, value, bytes / 4, handle);
    case Work::Fill2D:
      return hipMemset2DAsync(dst, work.form == Work::kBad ? 1 : region, value, region * fraction / 4, 4, handle);
    case Work::Host:
      return hipLaunchHostFunc(handle, work.bad() ? nullptr : bump, dst);
    default:
      return with_kernel(work, [&](Arguments& arguments, dim3 grid, dim3 block, unsigned shared) {
        if (work.by_stub() && stream.device == acting_device_) {
          const void* const stub = Kernels::stub(work.what);
          if (spt) return hipLaunchKernel_spt(stub, grid, block, arguments.params(), shared, nullptr);
          if ((work.form & 1) == 0) return hipLaunchKernel(stub, grid, block, arguments.params(), shared, handle);
          return hipExtLaunchKernel(stub, grid, block, arguments.params(), shared, handle, nullptr, nullptr, 0);
        }
        const hipFunction_t function = work.form == Work::kBad + 2 ? nullptr : loaded_function(work, stream.device);
        const bool extra = (work.form & 1) != 0 && !work.bad() && work.what != Work::Nothing;
        return hipModuleLaunchKernel(function, grid.x, 1, 1, block.x, 1, 1, shared, handle,
                                     extra ? nullptr : arguments.params(), extra ? arguments.extra() : nullptr);
      });
  }
}

namespace {

hipMemsetParams fill_node(const Work& work, void* dst, std::size_t ints, std::size_t region) {
  hipMemsetParams params{};
  params.dst = dst;
  params.value = static_cast<unsigned>(work.value);
  params.elementSize = work.what == Work::Fill16 ? 2 : work.what == Work::Fill32 ? 4 : 1;
  params.width = ints * sizeof(int) / params.elementSize;
  params.height = 1;
  params.pitch = ints * sizeof(int);
  if (work.what == Work::Fill2D) {
    params.width = region * static_cast<std::size_t>(work.quarter) / 4;
    params.height = 4;
    params.pitch = region;
  }
  if (work.what == Work::Fill8 || work.what == Work::Fill2D) params.value &= 0xff;
  if (work.what == Work::Fill16) params.value &= 0xffff;
  return params;
}

hipMemcpy3DParms copy_node(void* dst, const void* src, std::size_t region, std::int64_t quarter, hipMemcpyKind kind) {
  hipMemcpy3DParms params{};
  params.srcPtr = {const_cast<void*>(src), region, region, 4};
  params.dstPtr = {dst, region, region, 4};
  params.extent = {region * static_cast<std::size_t>(quarter) / 4, 4, 1};
  params.kind = kind;
  return params;
}

}  // namespace

hipError_t Machine::node_add(const Work& work, int device, hipGraph_t graph,
                             const std::vector<hipGraphNode_t>& nodes_before, hipGraphNode_t* node) {
  const LentNodes after(nodes_before);
  const std::size_t ints = work.what == Work::Nothing ? 0 : count_of(work);
  const auto region = static_cast<std::size_t>(work.parts * buffer(work.dst).part_ints);
  void* const dst = work.what == Work::Nothing ? nullptr : address(work.dst, work.first);
  switch (work.what) {
    case Work::Copy:
      return hipGraphAddMemcpyNode1D(node, graph, after.data(), after.size(), dst, address(work.src, work.src_first),
                                     ints * sizeof(int), copy_kind(work));
    case Work::Copy2D: {
      Lent params(copy_node(dst, address(work.src, work.src_first), region, work.quarter, copy_kind(work)));
      return hipGraphAddMemcpyNode(node, graph, after.data(), after.size(), params.get());
    }
    case Work::Fill8:
    case Work::Fill16:
    case Work::Fill32:
    case Work::Fill2D: {
      Lent params(fill_node(work, dst, ints, region));
      return hipGraphAddMemsetNode(node, graph, after.data(), after.size(), params.get());
    }
    case Work::Host: {
      Lent params(hipHostNodeParams{bump, dst});
      return hipGraphAddHostNode(node, graph, after.data(), after.size(), params.get());
    }
    case Work::Nothing:
      return hipGraphAddEmptyNode(node, graph, after.data(), after.size());
    default:
      return with_kernel(work, [&](Arguments& arguments, dim3 grid, dim3 block, unsigned shared) {
        hipKernelNodeParams params{};
        params.func = function_of(work, device);
        params.gridDim = grid;
        params.blockDim = block;
        params.sharedMemBytes = shared;
        params.kernelParams = arguments.params();
        Lent lent(params);
        return hipGraphAddKernelNode(node, graph, after.data(), after.size(), lent.get());
      });
  }
}

/// A kernel's parameters are asked for, changed where they lie and set again: in its graph, or, with an exec, there.
hipError_t Machine::node_edit(hipGraphNode_t node, std::int64_t value, hipGraphExec_t exec) {
  hipKernelNodeParams params{};
  const hipError_t result = hipGraphKernelNodeGetParams(node, &params);
  if (result != hipSuccess || params.kernelParams == nullptr) return result;
  const int changed = static_cast<int>(value);
  std::memcpy(params.kernelParams[2], &changed, sizeof changed);
  Lent lent(params);
  return exec != nullptr ? hipGraphExecKernelNodeSetParams(exec, node, lent.get())
                         : hipGraphKernelNodeSetParams(node, lent.get());
}

/// New parameters for the node in its graph, or, with an exec, there.
hipError_t Machine::node_change(const Work& work, int device, hipGraphNode_t node, hipGraphExec_t exec) {
  const std::size_t ints = work.what == Work::Nothing ? 0 : count_of(work);
  const auto region = static_cast<std::size_t>(work.parts * buffer(work.dst).part_ints);
  void* const dst = work.what == Work::Nothing ? nullptr : address(work.dst, work.first);
  switch (work.what) {
    case Work::Copy: {
      const void* const src = address(work.src, work.src_first);
      if (exec != nullptr)
        return hipGraphExecMemcpyNodeSetParams1D(exec, node, dst, src, ints * sizeof(int), copy_kind(work));
      return hipGraphMemcpyNodeSetParams1D(node, dst, src, ints * sizeof(int), copy_kind(work));
    }
    case Work::Copy2D: {
      Lent params(copy_node(dst, address(work.src, work.src_first), region, work.quarter, copy_kind(work)));
      return exec != nullptr ? hipGraphExecMemcpyNodeSetParams(exec, node, params.get())
                             : hipGraphMemcpyNodeSetParams(node, params.get());
    }
    case Work::Fill8:
    case Work::Fill16:
    case Work::Fill32:
    case Work::Fill2D: {
      Lent params(fill_node(work, dst, ints, region));
      return exec != nullptr ? hipGraphExecMemsetNodeSetParams(exec, node, params.get())
                             : hipGraphMemsetNodeSetParams(node, params.get());
    }
    case Work::Host: {
      Lent params(hipHostNodeParams{bump, dst});
      return exec != nullptr ? hipGraphExecHostNodeSetParams(exec, node, params.get())
                             : hipGraphHostNodeSetParams(node, params.get());
    }
    case Work::Nothing:
      return hipErrorUnknown;
    default:
      return with_kernel(work, [&](Arguments& arguments, dim3 grid, dim3 block, unsigned shared) {
        hipKernelNodeParams params{};
        params.func = function_of(work, device);
        params.gridDim = grid;
        params.blockDim = block;
        params.sharedMemBytes = shared;
        params.kernelParams = arguments.params();
        if (exec != nullptr && features_.keeps_arguments) arguments.stay();
        Lent lent(params);
        return exec != nullptr ? hipGraphExecKernelNodeSetParams(exec, node, lent.get())
                               : hipGraphKernelNodeSetParams(node, lent.get());
      });
  }
}

}  // namespace property
