// driver.h against CUDA's own header.
#include <cuda.h>
#include <gtest/gtest.h>

#include "driver.h"

namespace {

namespace cu = cudahip::cu;

#define SAME_SIZE(ours, theirs) static_assert(sizeof(cu::ours) == sizeof(theirs))
#define SAME_PLACE(ours, our_member, theirs, their_member)                          \
  static_assert(offsetof(cu::ours, our_member) == offsetof(theirs, their_member) && \
                sizeof(cu::ours::our_member) == sizeof(theirs::their_member))

SAME_SIZE(Copy2D, CUDA_MEMCPY2D);
SAME_PLACE(Copy2D, src_pitch, CUDA_MEMCPY2D, srcPitch);
SAME_PLACE(Copy2D, dst_device, CUDA_MEMCPY2D, dstDevice);
SAME_PLACE(Copy2D, height, CUDA_MEMCPY2D, Height);
SAME_SIZE(Copy3D, CUDA_MEMCPY3D);
SAME_PLACE(Copy3D, src_device, CUDA_MEMCPY3D, srcDevice);
SAME_PLACE(Copy3D, src_height, CUDA_MEMCPY3D, srcHeight);
SAME_PLACE(Copy3D, dst_host, CUDA_MEMCPY3D, dstHost);
SAME_PLACE(Copy3D, dst_pitch, CUDA_MEMCPY3D, dstPitch);
SAME_PLACE(Copy3D, depth, CUDA_MEMCPY3D, Depth);
SAME_SIZE(KernelNode, CUDA_KERNEL_NODE_PARAMS_v2);
SAME_PLACE(KernelNode, function, CUDA_KERNEL_NODE_PARAMS_v2, func);
SAME_PLACE(KernelNode, shared_bytes, CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes);
SAME_PLACE(KernelNode, params, CUDA_KERNEL_NODE_PARAMS_v2, kernelParams);
SAME_PLACE(KernelNode, context, CUDA_KERNEL_NODE_PARAMS_v2, ctx);
SAME_SIZE(MemsetNode, CUDA_MEMSET_NODE_PARAMS);
SAME_PLACE(MemsetNode, element_bytes, CUDA_MEMSET_NODE_PARAMS, elementSize);
SAME_PLACE(MemsetNode, height, CUDA_MEMSET_NODE_PARAMS, height);
SAME_SIZE(HostNode, CUDA_HOST_NODE_PARAMS);
SAME_SIZE(BatchNode, CUDA_BATCH_MEM_OP_NODE_PARAMS);
SAME_PLACE(BatchNode, count, CUDA_BATCH_MEM_OP_NODE_PARAMS, count);
SAME_PLACE(BatchNode, operations, CUDA_BATCH_MEM_OP_NODE_PARAMS, paramArray);
SAME_PLACE(BatchNode, flags, CUDA_BATCH_MEM_OP_NODE_PARAMS, flags);
SAME_SIZE(SemaphoreNode, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
SAME_SIZE(SemaphoreNode, CUDA_EXT_SEM_WAIT_NODE_PARAMS);
SAME_PLACE(SemaphoreNode, params, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, paramsArray);
SAME_PLACE(SemaphoreNode, count, CUDA_EXT_SEM_WAIT_NODE_PARAMS, numExtSems);
SAME_SIZE(UpdateResult, CUgraphExecUpdateResultInfo);
SAME_PLACE(UpdateResult, error_node, CUgraphExecUpdateResultInfo, errorNode);
SAME_SIZE(InstantiateParams, CUDA_GRAPH_INSTANTIATE_PARAMS);
SAME_PLACE(InstantiateParams, upload_stream, CUDA_GRAPH_INSTANTIATE_PARAMS, hUploadStream);
SAME_PLACE(InstantiateParams, error_node, CUDA_GRAPH_INSTANTIATE_PARAMS, hErrNode_out);
SAME_PLACE(InstantiateParams, result, CUDA_GRAPH_INSTANTIATE_PARAMS, result_out);
SAME_SIZE(EdgeData, CUgraphEdgeData);
SAME_SIZE(Location, CUmemLocation);
SAME_SIZE(AllocationProperties, CUmemAllocationProp);
SAME_PLACE(AllocationProperties, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_PLACE(AllocationProperties, location, CUmemAllocationProp, location);
SAME_SIZE(AccessDescription, CUmemAccessDesc);
SAME_SIZE(LaunchAttributeValue, CUlaunchAttributeValue);
SAME_SIZE(IpcHandle, CUipcMemHandle);
SAME_SIZE(Uuid, CUuuid);

static_assert(cu::kNoDevice == CUDA_ERROR_NO_DEVICE && cu::kNotSupported == CUDA_ERROR_NOT_SUPPORTED &&
              cu::kInvalidContext == CUDA_ERROR_INVALID_CONTEXT && cu::kNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(cu::kHostMemory == CU_MEMORYTYPE_HOST && cu::kDeviceMemory == CU_MEMORYTYPE_DEVICE &&
              cu::kUnifiedMemory == CU_MEMORYTYPE_UNIFIED);

/// Arguments are passed alike when their sizes and kinds are.
template <typename Ours, typename Theirs>
struct SameArguments;
template <typename... Ours, typename... Theirs>
struct SameArguments<int (*)(Ours...), CUresult (*)(Theirs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
      return ((sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>)&&...);
    }
    return false;
  }();
};

TEST(Layout, OfStructuresIsTheDrivers) { SUCCEED() << "checked by the compiler"; }

// The newest forms of what changed since are not compared.
#define SAME(name) static_assert(SameArguments<decltype(cu::Table::name), decltype(&::name)>::value, #name);
SAME(cuStreamBeginCapture_v2)
SAME(cuStreamBeginCaptureToGraph)
SAME(cuGraphAddKernelNode_v2)
SAME(cuGraphAddMemcpyNode)
SAME(cuGraphAddMemsetNode)
SAME(cuGraphAddBatchMemOpNode)
SAME(cuGraphBatchMemOpNodeGetParams)
SAME(cuGraphBatchMemOpNodeSetParams)
SAME(cuGraphExecBatchMemOpNodeSetParams)
SAME(cuGraphAddExternalSemaphoresSignalNode)
SAME(cuGraphAddExternalSemaphoresWaitNode)
SAME(cuGraphExternalSemaphoresSignalNodeGetParams)
SAME(cuGraphExternalSemaphoresWaitNodeSetParams)
SAME(cuGraphExecExternalSemaphoresSignalNodeSetParams)
SAME(cuGraphExecExternalSemaphoresWaitNodeSetParams)
SAME(cuGraphExecUpdate_v2)
SAME(cuGraphExecMemcpyNodeSetParams)
SAME(cuGraphInstantiateWithFlags)
SAME(cuMemCreate)
SAME(cuMemMap)
SAME(cuMemSetAccess)
SAME(cuMemGetAccess)
SAME(cuMemAddressReserve)
SAME(cuLaunchKernel)
SAME(cuStreamWaitValue64_v2)
SAME(cuStreamBatchMemOp_v2)
SAME(cuImportExternalMemory)
SAME(cuExternalMemoryGetMappedBuffer)
SAME(cuImportExternalSemaphore)
SAME(cuSignalExternalSemaphoresAsync)
SAME(cuWaitExternalSemaphoresAsync)
SAME(cuMemRangeGetAttribute)
SAME(cuMemRangeGetAttributes)
SAME(cuMemGetHandleForAddressRange)
SAME(cuUserObjectCreate)
SAME(cuMemPoolSetAccess)
SAME(cuModuleEnumerateFunctions)

}  // namespace
