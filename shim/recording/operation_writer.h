// operation_writer.h: makes an operation of a program's call: fills in the operation's payload and fields of its
// signature.
//
// Threads: one writer belongs to one call. Errors: kUnsupported or kMalformed where the operation cannot be compared;
// then the caller takes back what the writer has added to the binding. Not here: device, stream and thread, which the
// caller puts into the signature.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "shim/base/function_ref.h"
#include "shim/base/status.h"
#include "shim/hip/hook_table.h"
#include "shim/recording/operation.h"

namespace graphpool {

struct TreeNode;

/// Fills in one operation: its signature's kind-specific fields and its payload.
class OperationWriter {
 public:
  /// `likely`: the place in the tree that fits if the operation is the one that came last time, or null.
  OperationWriter(Signature& signature, Binding& binding, TreeNode* likely = nullptr) noexcept
      : signature_(signature), binding_(binding), likely_(likely) {}

  /// kUnsupported: the argument layout is not known, an argument is not plain bytes, shared memory is 4 GiB or more, or
  /// not exactly one of `params` and `extra` has the arguments. kMalformed: a null pointer, or an `extra` that is not
  /// as HIP wants it.
  Status kernel(const void* stub_or_function, KernelForm form, dim3 grid, dim3 block, std::size_t shared_bytes,
                void** params, void** extra);
  /// Notes that the kernel was launched by another function than hipLaunchKernel and hipModuleLaunchKernel. Not every
  /// runtime captures such a launch, so it is compared with launches by the same function only. Call it after kernel().
  void launched_by(EntryId function) noexcept;
  Status copy(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind);
  Status copy_2d(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width,
                 std::size_t height, hipMemcpyKind kind);
  Status fill(void* dst, std::uint32_t value, std::uint32_t element_bytes, std::size_t width, std::size_t height,
              std::size_t pitch);
  Status host(hipHostFn_t function, void* user);

  // The same for parameters of nodes. Also kUnsupported where only the runtime can say whether it takes the parameters.
  Status node_kernel(const hipKernelNodeParams* params);
  Status node_copy(const hipMemcpy3DParms* params);
  /// `context`: the one the node was added with; null where a call that sets the node names none.
  Status node_driver_copy(const HIP_MEMCPY3D* params, hipCtx_t context);
  Status node_fill(const hipMemsetParams* params);
  Status node_host(const hipHostNodeParams* params);
  Status node_empty();
  /// Describes a child graph by the number of its recording and its binding.
  Status node_child(std::uint64_t recording, const Binding& binding);

  const ArgumentLayout* layout() const noexcept { return layout_; }

 private:
  Signature& signature_;
  Binding& binding_;
  TreeNode* likely_;
  const ArgumentLayout* layout_ = nullptr;
};

using Describe = FunctionRef<Status(OperationWriter&)>;

}  // namespace graphpool
