#include "shim/recording/operation_writer.h"

#include <algorithm>
#include <cstring>

#include "shim/kernel/argument_layout.h"
#include "shim/kernel/asked_kernels.h"
#include "shim/kernel/functions.h"
#include "shim/memory/copy_params.h"
#include "shim/recording/operand.h"
#include "shim/recording/prefix_tree.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {
namespace {

/// Puts sizes into the signature where the library does not know an operand's memory: only the runtime can judge those.
void judge_sizes(Signature& signature, std::uint64_t bytes, std::uint64_t width) noexcept {
  if (is_known_class(signature.dst_class) && is_known_class(signature.src_class)) return;
  signature.object = bytes;
  signature.generation = width;
}

/// Whether all versions have this kind. The runtime refuses others, or they came with a later version.
bool is_known_kind(hipMemcpyKind kind) noexcept { return static_cast<unsigned>(kind) <= hipMemcpyDefault; }

/// Whether the product is too large: only the runtime can judge such a size.
bool overflows(std::size_t a, std::size_t b) noexcept {
  std::size_t product;
  return __builtin_mul_overflow(a, b, &product);
}

/// Returns what is known of a kernel. Looks nothing up where the likely operation launches this one, and no function
/// has come or gone since that was found.
KernelInfo kernel_info(const void* stub_or_function, TreeNode* likely) noexcept {
  if (likely == nullptr || likely->operation.signature.kind != OperationKind::kKernel ||
      likely->operation.signature.object != reinterpret_cast<std::uint64_t>(stub_or_function))
    return functions().find(stub_or_function);
  const std::uint64_t version = functions().version();
  const Operation& operation = likely->operation;
  if (version != Functions::kChanging && likely->functions_version.load(std::memory_order_relaxed) == version)
    return {operation.layout, nullptr, operation.signature.generation};
  const KernelInfo info = functions().find(stub_or_function);
  if (version != Functions::kChanging && info.layout == operation.layout &&
      info.generation == operation.signature.generation)
    likely->functions_version.store(version, std::memory_order_relaxed);
  return info;
}

}  // namespace

Status OperationWriter::kernel(const void* stub_or_function, KernelForm form, dim3 grid, dim3 block,
                               std::size_t shared_bytes, void** params, void** extra) {
  KernelInfo info = kernel_info(stub_or_function, likely_);
  if (info.layout == nullptr && info.may_be_asked) info = ask_kernel(stub_or_function, info);
  if (info.layout == nullptr || shared_bytes > UINT32_MAX) return Status::kUnsupported;
  const KernelPayload shape{{grid.x, grid.y, grid.z},
                            {block.x, block.y, block.z},
                            static_cast<std::uint32_t>(shared_bytes),
                            static_cast<std::uint32_t>(info.layout->bytes())};
  std::byte* const segment = add_kernel_payload(binding_, shape);
  if (!info.layout->arguments().empty()) {
    if ((params == nullptr) == (extra == nullptr)) return Status::kUnsupported;
    const Status packed =
        params != nullptr ? info.layout->pack(params, segment) : info.layout->pack_extra(extra, segment);
    if (packed != Status::kOk) return packed;
  }
  LaunchFields(form, stub_or_function, params == nullptr ? packed_bits(extra) : 0, shape).put_into(signature_);
  signature_.generation = info.generation;
  layout_ = info.layout;
  return Status::kOk;
}

void OperationWriter::launched_by(EntryId function) noexcept { signature_.validity |= launched_by_bits(function); }

Status OperationWriter::copy(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind) {
  if (!is_known_kind(kind)) return Status::kUnsupported;
  signature_.kind = OperationKind::kCopy;
  signature_.validity = (static_cast<std::uint32_t>(kind) & 0xff) | zero_size(bytes) | (dst == src ? kSameOperands : 0);
  signature_.dst_class = operand_class(dst, bytes);
  signature_.src_class = operand_class(src, bytes);
  judge_sizes(signature_, bytes, bytes);
  const CopyPayload copy{
      reinterpret_cast<std::uint64_t>(dst), reinterpret_cast<std::uint64_t>(src), bytes, 1, bytes, bytes};
  std::memcpy(add_payload(binding_, sizeof copy), &copy, sizeof copy);
  return Status::kOk;
}

Status OperationWriter::copy_2d(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                                std::size_t width, std::size_t height, hipMemcpyKind kind) {
  if (!is_known_kind(kind) || overflows(width, height) || overflows(dst_pitch, height) || overflows(src_pitch, height))
    return Status::kUnsupported;
  signature_.kind = OperationKind::kCopy2D;
  signature_.validity = (static_cast<std::uint32_t>(kind) & 0xff) | zero_size(width * height) |
                        (dst == src ? kSameOperands : 0) |
                        (dst_pitch < width || src_pitch < width ? kPitchTooSmall : 0);
  signature_.dst_class = operand_class(dst, dst_pitch * height);
  signature_.src_class = operand_class(src, src_pitch * height);
  judge_sizes(signature_, dst_pitch * height, width);
  const CopyPayload copy{
      reinterpret_cast<std::uint64_t>(dst), reinterpret_cast<std::uint64_t>(src), width, height, dst_pitch, src_pitch};
  std::memcpy(add_payload(binding_, sizeof copy), &copy, sizeof copy);
  return Status::kOk;
}

Status OperationWriter::fill(void* dst, std::uint32_t value, std::uint32_t element_bytes, std::size_t width,
                             std::size_t height, std::size_t pitch) {
  if (overflows(width, height) || overflows(width, element_bytes) || overflows(pitch, height))
    return Status::kUnsupported;
  signature_.kind = OperationKind::kFill;
  signature_.validity = element_bytes | zero_size(width * height) |
                        (height == 1 ? 0 : kPitched | (pitch < width * element_bytes ? kPitchTooSmall : 0));
  signature_.dst_class = operand_class(dst, height == 1 ? width * element_bytes : pitch * height);
  signature_.src_class = signature_.dst_class;
  judge_sizes(signature_, pitch * height, width);
  const FillPayload fill{reinterpret_cast<std::uint64_t>(dst), value, width, height, pitch};
  std::memcpy(add_payload(binding_, sizeof fill), &fill, sizeof fill);
  return Status::kOk;
}

Status OperationWriter::host(hipHostFn_t function, void* user) {
  signature_.kind = OperationKind::kHost;
  signature_.object = reinterpret_cast<std::uint64_t>(function);
  signature_.validity = function == nullptr ? kZeroSize : 0;
  const HostPayload host{reinterpret_cast<std::uint64_t>(user)};
  std::memcpy(add_payload(binding_, sizeof host), &host, sizeof host);
  return Status::kOk;
}

Status OperationWriter::node_kernel(const hipKernelNodeParams* params) {
  if (params == nullptr || params->extra != nullptr) return Status::kUnsupported;
  return kernel(params->func, KernelForm::kNone, params->gridDim, params->blockDim, params->sharedMemBytes,
                params->kernelParams, nullptr);
}

Status OperationWriter::node_copy(const hipMemcpy3DParms* params) {
  if (params == nullptr || params->srcArray != nullptr || params->dstArray != nullptr || !is_known_kind(params->kind))
    return Status::kUnsupported;
  const hipExtent& extent = params->extent;
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return Status::kUnsupported;
  // The bytes a side spans from its pointer on; 0 where it is not plainly within its own pitches.
  const auto span = [&extent](const hipPitchedPtr& side, const hipPos& from) -> std::size_t {
    const bool flat = extent.depth == 1 && from.z == 0;
    std::size_t columns, rows, planes, plane, bytes;
    if (side.ptr == nullptr || side.xsize > side.pitch || __builtin_add_overflow(from.x, extent.width, &columns) ||
        columns > side.pitch || __builtin_add_overflow(from.y, extent.height, &rows) || (!flat && rows > side.ysize) ||
        __builtin_add_overflow(from.z, extent.depth, &planes) ||
        __builtin_mul_overflow(side.pitch, flat ? rows : side.ysize, &plane) ||
        __builtin_mul_overflow(plane, planes, &bytes))
      return 0;
    return bytes;
  };
  const std::size_t dst_bytes = span(params->dstPtr, params->dstPos), src_bytes = span(params->srcPtr, params->srcPos);
  if (dst_bytes == 0 || src_bytes == 0) return Status::kUnsupported;
  signature_.kind = OperationKind::kCopy3D;
  signature_.validity = (static_cast<std::uint32_t>(params->kind) & 0xff) |
                        (params->dstPtr.ptr == params->srcPtr.ptr ? kSameOperands : 0);
  signature_.dst_class = operand_class(params->dstPtr.ptr, dst_bytes);
  signature_.src_class = operand_class(params->srcPtr.ptr, src_bytes);
  judge_sizes(signature_, dst_bytes, src_bytes);
  // Copied member by member: bytes between members have any value.
  std::byte* const payload = add_payload(binding_, sizeof(Copy3DPayload));
  std::memset(payload, 0, sizeof(Copy3DPayload));
  auto& to = *reinterpret_cast<hipMemcpy3DParms*>(payload);
  to.srcPos = params->srcPos;
  to.srcPtr = params->srcPtr;
  to.dstPos = params->dstPos;
  to.dstPtr = params->dstPtr;
  to.extent = params->extent;
  to.kind = params->kind;
  return Status::kOk;
}

Status OperationWriter::node_driver_copy(const HIP_MEMCPY3D* params, hipCtx_t context) {
  hipMemcpy3DParms plain;
  if (!plain_copy(params, &plain)) return Status::kUnsupported;
  const Status described = node_copy(&plain);
  signature_.validity |= kDriverStyle;
  signature_.object = reinterpret_cast<std::uint64_t>(context);
  return described;
}

Status OperationWriter::node_fill(const hipMemsetParams* params) {
  if (params == nullptr || params->width == 0 || params->height == 0) return Status::kUnsupported;
  const std::size_t element = params->elementSize;
  std::size_t row, all;
  if ((element != 1 && element != 2 && element != 4) || __builtin_mul_overflow(params->width, element, &row) ||
      __builtin_mul_overflow(params->pitch, params->height, &all) || (params->height > 1 && params->pitch < row))
    return Status::kUnsupported;
  signature_.kind = OperationKind::kFill;
  signature_.validity = params->elementSize | (params->height == 1 ? 0 : kPitched);
  signature_.dst_class = operand_class(params->dst, std::max(row, all));
  signature_.src_class = signature_.dst_class;
  judge_sizes(signature_, all, params->width);
  const FillPayload fill{reinterpret_cast<std::uint64_t>(params->dst), params->value, params->width, params->height,
                         params->pitch};
  std::memcpy(add_payload(binding_, sizeof fill), &fill, sizeof fill);
  return Status::kOk;
}

Status OperationWriter::node_host(const hipHostNodeParams* params) {
  return params == nullptr || params->fn == nullptr ? Status::kUnsupported : host(params->fn, params->userData);
}

Status OperationWriter::node_empty() {
  signature_.kind = OperationKind::kEmpty;
  return Status::kOk;
}

Status OperationWriter::node_child(std::uint64_t recording, const Binding& binding) {
  signature_.kind = OperationKind::kChild;
  signature_.object = recording;
  if (!binding.empty()) std::memcpy(add_payload(binding_, binding.size()), binding.data(), binding.size());
  return Status::kOk;
}

}  // namespace graphpool
