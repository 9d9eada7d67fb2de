#include "shim/recording/fill_kind.h"

#include <algorithm>

#include "shim/base/seeded_defect.h"
#include "shim/hip/next.h"

namespace graphpool {
namespace {

unsigned element_bytes(const Signature& signature) noexcept { return signature.validity & 0xff; }

hipMemsetParams fill_params(const Signature& signature, const FillPayload& fill) {
  hipMemsetParams params{};
  params.dst = pointer_of(fill.dst);
  params.elementSize = element_bytes(signature);
  params.value = static_cast<unsigned>(fill.value);
  if (seeded_defect(Seeded::kFillNarrowed)) params.value &= 0xff;
  params.width = fill.width;
  params.height = fill.height;
  params.pitch = fill.pitch;
  return params;
}

}  // namespace

hipError_t FillKind::issue(const Signature& signature, std::uint32_t offset, const ArgumentLayout*,
                           const Binding& binding, hipStream_t stream) {
  const auto& fill = payload_at<FillPayload>(binding, offset);
  void* const dst = pointer_of(fill.dst);
  if (fill.height != 1)
    return next().hipMemset2DAsync(dst, fill.pitch, static_cast<int>(fill.value), fill.width, fill.height, stream);
  const unsigned bytes = element_bytes(signature);
  if (bytes == 2) return next().hipMemsetD16Async(dst, static_cast<unsigned short>(fill.value), fill.width, stream);
  if (bytes == 4) return next().hipMemsetD32Async(dst, static_cast<int>(fill.value), fill.width, stream);
  return next().hipMemsetAsync(dst, static_cast<int>(fill.value), fill.width, stream);
}

hipError_t FillKind::add(const Operation& operation, const Binding& binding, const NewNode& place) {
  const hipMemsetParams params =
      fill_params(operation.signature, payload_at<FillPayload>(binding, operation.payload_offset));
  return next().hipGraphAddMemsetNode(place.node, place.graph, place.after.data(), place.after.size(), &params);
}

hipError_t FillKind::patch(const Operation& operation, const Binding& binding, hipGraphExec_t exec,
                           hipGraphNode_t node) {
  const hipMemsetParams params =
      fill_params(operation.signature, payload_at<FillPayload>(binding, operation.payload_offset));
  return next().hipGraphExecMemsetNodeSetParams(exec, node, &params);
}

const char* FillKind::node_difference(const NodeQuestion& asked) {
  hipMemsetParams params{};
  if (next().hipGraphMemsetNodeGetParams(asked.node, &params) != hipSuccess) return "parameters";
  const auto& fill = payload_at<FillPayload>(asked.binding, asked.operation.payload_offset);
  if (reinterpret_cast<std::uint64_t>(params.dst) != fill.dst) return "address";
  if (params.width != fill.width || params.height != fill.height) return "size";
  if (params.elementSize != element_bytes(asked.operation.signature)) return "element size";
  // What does not fit into an element does not count.
  const std::uint64_t unused = params.elementSize < 4 ? ~std::uint64_t{0} << (8 * params.elementSize) : 0;
  return ((params.value ^ fill.value) & ~unused & 0xffffffff) == 0 ? nullptr : "value";
}

void FillKind::for_each_moved(const Operation& operation, const Binding& before, const Binding& now, MovedVisit visit) {
  visit_if_moved(0, payload_at<FillPayload>(before, operation.payload_offset).dst,
                 payload_at<FillPayload>(now, operation.payload_offset).dst, visit);
}

void FillKind::note_judged(const Signature& signature, const Binding& binding, std::uint32_t offset,
                           JudgedVisit visit) {
  const auto& fill = payload_at<FillPayload>(binding, offset);
  visit(signature.dst_class, std::max(fill.pitch * fill.height, fill.width * 4));
}

bool FillKind::may_refuse_set(const Operation& operation, const Binding& payload, const Binding& now) noexcept {
  const auto& to = payload_at<FillPayload>(payload, 0);
  const auto& from = payload_at<FillPayload>(now, operation.payload_offset);
  return to.height != 1 && (to.width != from.width || to.height != from.height);
}

}  // namespace graphpool
