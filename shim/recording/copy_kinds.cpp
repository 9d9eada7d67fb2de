#include "shim/recording/copy_kinds.h"

#include "shim/hip/next.h"
#include "shim/memory/copy_params.h"
#include "shim/recording/operand.h"

namespace graphpool {
namespace {

hipMemcpy3DParms box_of(const Signature& signature, const CopyPayload& copy) {
  hipMemcpy3DParms params{};
  params.srcPtr = {pointer_of(copy.src), copy.src_pitch, copy.width, copy.height};
  params.dstPtr = {pointer_of(copy.dst), copy.dst_pitch, copy.width, copy.height};
  params.extent = {copy.width, copy.height, 1};
  params.kind = copy_kind_of(signature);
  return params;
}

hipCtx_t context_of(const Signature& signature) noexcept { return static_cast<hipCtx_t>(pointer_of(signature.object)); }

}  // namespace

void RowsCopy::for_each_moved(const Operation& operation, const Binding& before, const Binding& now, MovedVisit visit) {
  const auto& from = payload_at<CopyPayload>(before, operation.payload_offset);
  const auto& to = payload_at<CopyPayload>(now, operation.payload_offset);
  visit_if_moved(0, from.dst, to.dst, visit);
  visit_if_moved(1, from.src, to.src, visit);
}

void RowsCopy::note_judged(const Signature& signature, const Binding& binding, std::uint32_t offset,
                           JudgedVisit visit) {
  const auto& copy = payload_at<CopyPayload>(binding, offset);
  visit(signature.dst_class, copy.dst_pitch * copy.height);
  visit(signature.src_class, copy.src_pitch * copy.height);
}

// --- one row ---

hipError_t CopyKind::issue(const Signature& signature, std::uint32_t offset, const ArgumentLayout*,
                           const Binding& binding, hipStream_t stream) {
  const auto& copy = payload_at<CopyPayload>(binding, offset);
  return next().hipMemcpyAsync(pointer_of(copy.dst), pointer_of(copy.src), copy.width, copy_kind_of(signature), stream);
}

hipError_t CopyKind::add(const Operation& operation, const Binding& binding, const NewNode& place) {
  const auto& copy = payload_at<CopyPayload>(binding, operation.payload_offset);
  return next().hipGraphAddMemcpyNode1D(place.node, place.graph, place.after.data(), place.after.size(),
                                        pointer_of(copy.dst), pointer_of(copy.src), copy.width,
                                        copy_kind_of(operation.signature));
}

hipError_t CopyKind::patch(const Operation& operation, const Binding& binding, hipGraphExec_t exec,
                           hipGraphNode_t node) {
  const auto& copy = payload_at<CopyPayload>(binding, operation.payload_offset);
  return next().hipGraphExecMemcpyNodeSetParams1D(exec, node, pointer_of(copy.dst), pointer_of(copy.src), copy.width,
                                                  copy_kind_of(operation.signature));
}

NodeClass CopyKind::node_class(const Signature& signature) noexcept {
  const bool on_one_device = is_plain(signature) && copy_kind_of(signature) == hipMemcpyDeviceToDevice &&
                             signature.dst_class == signature.src_class;
  return on_one_device ? NodeClass::kDeviceCopy : NodeClass::kOther;
}

// --- rows with a pitch ---

hipError_t PitchedCopyKind::issue(const Signature& signature, std::uint32_t offset, const ArgumentLayout*,
                                  const Binding& binding, hipStream_t stream) {
  const auto& copy = payload_at<CopyPayload>(binding, offset);
  return next().hipMemcpy2DAsync(pointer_of(copy.dst), copy.dst_pitch, pointer_of(copy.src), copy.src_pitch, copy.width,
                                 copy.height, copy_kind_of(signature), stream);
}

hipError_t PitchedCopyKind::add(const Operation& operation, const Binding& binding, const NewNode& place) {
  const hipMemcpy3DParms params =
      box_of(operation.signature, payload_at<CopyPayload>(binding, operation.payload_offset));
  return next().hipGraphAddMemcpyNode(place.node, place.graph, place.after.data(), place.after.size(), &params);
}

hipError_t PitchedCopyKind::patch(const Operation& operation, const Binding& binding, hipGraphExec_t exec,
                                  hipGraphNode_t node) {
  hipMemcpy3DParms params = box_of(operation.signature, payload_at<CopyPayload>(binding, operation.payload_offset));
  return next().hipGraphExecMemcpyNodeSetParams(exec, node, &params);
}

// --- a box ---

hipError_t BoxCopyKind::add(const Operation& operation, const Binding& binding, const NewNode& place) {
  const hipMemcpy3DParms& params = payload_at<Copy3DPayload>(binding, operation.payload_offset).params;
  if ((operation.signature.validity & kDriverStyle) == 0)
    return next().hipGraphAddMemcpyNode(place.node, place.graph, place.after.data(), place.after.size(), &params);
  ParamsCopy copy;
  return next().hipDrvGraphAddMemcpyNode(place.node, place.graph, place.after.data(), place.after.size(),
                                         driver_copy(params, &copy), context_of(operation.signature));
}

hipError_t BoxCopyKind::patch(const Operation& operation, const Binding& binding, hipGraphExec_t exec,
                              hipGraphNode_t node) {
  hipMemcpy3DParms params = payload_at<Copy3DPayload>(binding, operation.payload_offset).params;
  if ((operation.signature.validity & kDriverStyle) == 0)
    return next().hipGraphExecMemcpyNodeSetParams(exec, node, &params);
  ParamsCopy copy;
  return next().hipDrvGraphExecMemcpyNodeSetParams(exec, node, driver_copy(params, &copy),
                                                   context_of(operation.signature));
}

void BoxCopyKind::for_each_moved(const Operation& operation, const Binding& before, const Binding& now,
                                 MovedVisit visit) {
  const auto& from = payload_at<Copy3DPayload>(before, operation.payload_offset).params;
  const auto& to = payload_at<Copy3DPayload>(now, operation.payload_offset).params;
  const auto address = [](const hipPitchedPtr& side) { return reinterpret_cast<std::uint64_t>(side.ptr); };
  visit_if_moved(0, address(from.dstPtr), address(to.dstPtr), visit);
  visit_if_moved(1, address(from.srcPtr), address(to.srcPtr), visit);
}

void BoxCopyKind::note_judged(const Signature& signature, const Binding& binding, std::uint32_t offset,
                              JudgedVisit visit) {
  const hipMemcpy3DParms& params = payload_at<Copy3DPayload>(binding, offset).params;
  const auto bytes = [&](const hipPitchedPtr& side, const hipPos& from) {
    return side.pitch * (side.ysize + from.y + params.extent.height) * (from.z + params.extent.depth);
  };
  visit(signature.dst_class, bytes(params.dstPtr, params.dstPos));
  visit(signature.src_class, bytes(params.srcPtr, params.srcPos));
}

}  // namespace graphpool
