#include "shim/recording/host_kinds.h"

#include "shim/hip/next.h"

namespace graphpool {
namespace {

hipHostFn_t function_of(const Signature& signature) noexcept { return reinterpret_cast<hipHostFn_t>(signature.object); }

hipHostNodeParams node_params(const Operation& operation, const Binding& binding) noexcept {
  return {function_of(operation.signature),
          pointer_of(payload_at<HostPayload>(binding, operation.payload_offset).user)};
}

}  // namespace

hipError_t HostKind::issue(const Signature& signature, std::uint32_t offset, const ArgumentLayout*,
                           const Binding& binding, hipStream_t stream) {
  return next().hipLaunchHostFunc(stream, function_of(signature),
                                  pointer_of(payload_at<HostPayload>(binding, offset).user));
}

hipError_t HostKind::add(const Operation& operation, const Binding& binding, const NewNode& place) {
  const hipHostNodeParams params = node_params(operation, binding);
  return next().hipGraphAddHostNode(place.node, place.graph, place.after.data(), place.after.size(), &params);
}

hipError_t HostKind::patch(const Operation& operation, const Binding& binding, hipGraphExec_t exec,
                           hipGraphNode_t node) {
  const hipHostNodeParams params = node_params(operation, binding);
  return next().hipGraphExecHostNodeSetParams(exec, node, &params);
}

const char* HostKind::node_difference(const NodeQuestion& asked) {
  hipHostNodeParams params{};
  if (next().hipGraphHostNodeGetParams(asked.node, &params) != hipSuccess) return "parameters";
  if (reinterpret_cast<std::uint64_t>(params.fn) != asked.operation.signature.object) return "function";
  const auto& host = payload_at<HostPayload>(asked.binding, asked.operation.payload_offset);
  return reinterpret_cast<std::uint64_t>(params.userData) == host.user ? nullptr : "user data";
}

hipError_t EmptyKind::add(const Operation&, const Binding&, const NewNode& place) {
  return next().hipGraphAddEmptyNode(place.node, place.graph, place.after.data(), place.after.size());
}

}  // namespace graphpool
