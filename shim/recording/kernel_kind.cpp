#include "shim/recording/kernel_kind.h"

#include <array>
#include <cstring>
#include <vector>

#include "shim/base/units.h"
#include "shim/hip/next.h"
#include "shim/kernel/functions.h"
#include "shim/memory/device_memory.h"

namespace graphpool {
namespace {

// Bytes that a kernel's node has in device memory behind its arguments, and the multiple of bytes that it takes.
constexpr std::size_t kHidden = 256, kAlignment = 64;

/// A kernel launch as HIP takes it: one pointer into the binding for each argument, or one buffer, where the program
/// gave one. So a program that asks for the node's parameters finds them in the form that it gave.
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

/// Whether the kernel's module is gone. A library's goes by dlclose(), and nothing can be made real before that. The
/// handle must not reach the runtime then: it takes a host stub that it does not know for a function.
bool is_gone(const Signature& signature) noexcept {
  return !functions().still_there(reinterpret_cast<const void*>(signature.object), signature.generation);
}

bool same_dimensions(const dim3& a, const std::uint32_t (&b)[3]) noexcept {
  return a.x == b[0] && a.y == b[1] && a.z == b[2];
}

}  // namespace

const char* KernelKind::signature_difference(const Signature& own, const Signature& recorded) noexcept {
  if (own.object != recorded.object || own.generation != recorded.generation || own.form != recorded.form)
    return "function";
  if (own.payload_bytes != recorded.payload_bytes) return "arguments";
  if (own.validity != recorded.validity) return "way of launching";
  if (own.dst_class != recorded.dst_class || own.src_class != recorded.src_class) return "block or shared memory";
  return "grid";
}

hipError_t KernelKind::issue(const Signature& signature, std::uint32_t offset, const ArgumentLayout* layout,
                             const Binding& binding, hipStream_t stream) {
  if (is_gone(signature)) return hipErrorInvalidDeviceFunction;
  Launch launch(signature, offset, layout, binding);
  if (signature.form == KernelForm::kStub)
    return next().hipLaunchKernel(launch.function(), launch.grid(), launch.block(), launch.params(),
                                  launch.shared_bytes(), stream);
  const dim3 grid = launch.grid(), block = launch.block();
  return next().hipModuleLaunchKernel(static_cast<hipFunction_t>(launch.function()), grid.x, grid.y, grid.z, block.x,
                                      block.y, block.z, launch.shared_bytes(), stream, launch.params(), launch.extra());
}

hipError_t KernelKind::add(const Operation& operation, const Binding& binding, const NewNode& place) {
  if (is_gone(operation.signature)) return hipErrorInvalidDeviceFunction;
  Launch launch(operation.signature, operation.payload_offset, operation.layout, binding);
  const hipKernelNodeParams params = launch.node_params();
  return next().hipGraphAddKernelNode(place.node, place.graph, place.after.data(), place.after.size(), &params);
}

hipError_t KernelKind::patch(const Operation& operation, const Binding& binding, hipGraphExec_t exec,
                             hipGraphNode_t node) {
  if (is_gone(operation.signature)) return hipErrorInvalidDeviceFunction;
  Launch launch(operation.signature, operation.payload_offset, operation.layout, binding);
  const hipKernelNodeParams params = launch.node_params();
  return next().hipGraphExecKernelNodeSetParams(exec, node, &params);
}

bool KernelKind::set_in_graph(const Operation& operation, const Binding& binding, hipGraphNode_t node) {
  if (is_gone(operation.signature)) return false;
  Launch launch(operation.signature, operation.payload_offset, operation.layout, binding);
  const hipKernelNodeParams params = launch.node_params();
  return next().hipGraphKernelNodeSetParams(node, &params) == hipSuccess;
}

const char* KernelKind::node_difference(const NodeQuestion& asked) {
  const Operation& operation = asked.operation;
  hipKernelNodeParams params{};
  if (next().hipGraphKernelNodeGetParams(asked.node, &params) != hipSuccess) return "parameters";
  const auto& payload = payload_at<KernelPayload>(asked.binding, operation.payload_offset);
  if (reinterpret_cast<std::uint64_t>(params.func) != operation.signature.object) return "function";
  if (params.sharedMemBytes != payload.shared_bytes) return "shared memory";
  if (!same_dimensions(params.gridDim, payload.grid)) return "grid";
  if (!same_dimensions(params.blockDim, payload.block)) return "block";
  const auto arguments = operation.layout->arguments();
  const std::byte* const segment = asked.binding.data() + operation.payload_offset + sizeof(KernelPayload);
  if (params.kernelParams == nullptr && params.extra != nullptr) {
    std::vector<std::byte> packed(operation.layout->bytes());
    if (operation.layout->pack_extra(params.extra, packed.data()) != Status::kOk) return "arguments";
    return packed.empty() || std::memcmp(packed.data(), segment, packed.size()) == 0 ? nullptr : "arguments";
  }
  if (params.kernelParams == nullptr) return arguments.empty() ? nullptr : "arguments";
  for (std::size_t& i = *asked.argument = 0; i < arguments.size(); ++i)
    if (std::memcmp(params.kernelParams[i], segment + arguments[i].offset, arguments[i].bytes) != 0) return "argument";
  return nullptr;
}

void KernelKind::for_each_moved(const Operation& operation, const Binding& before, const Binding& now,
                                MovedVisit visit) {
  const std::size_t segment = operation.payload_offset + sizeof(KernelPayload);
  const auto compare = [&](std::size_t argument, std::size_t offset, std::uint64_t address) {
    std::uint64_t former;
    std::memcpy(&former, before.data() + segment + offset, sizeof former);
    visit_if_moved(static_cast<std::uint32_t>(argument), former, address, visit);
  };
  operation.layout->for_each_pointer(now.data() + segment, compare);
  operation.layout->for_each_value_word(
      now.data() + segment, [&](std::size_t argument, std::size_t offset, std::uint64_t word) {
        const bool address = operation.layout->arguments()[argument].kind == ArgumentKind::kUnknown &&
                             block_table().find(reinterpret_cast<const void*>(word)) != nullptr;
        if (address) compare(argument, offset, word);
      });
}

std::size_t KernelKind::argument_memory(const Operation& operation) noexcept {
  return round_up(operation.signature.payload_bytes + kHidden, kAlignment);
}

}  // namespace graphpool
