#include "shim/buffer_rules.h"

#include <algorithm>

#include "policy/policy.h"
#include "shim/callsite/callsite.h"
#include "shim/engine.h"
#include "shim/entry.h"
#include "shim/log.h"

namespace graphpool {
namespace {

bool g_unwind = false;       ///< some rule or the report asks for call sites
bool g_key_by_site = false;  ///< memory goes back to the call site it came from

std::string_view function_name(AllocationFunction function) noexcept {
  switch (function) {
    case AllocationFunction::kMalloc:
      return "hipMalloc";
    case AllocationFunction::kExtMalloc:
      return "hipExtMallocWithFlags";
    case AllocationFunction::kMallocAsync:
      return "hipMallocAsync";
    case AllocationFunction::kMallocFromPool:
      return "hipMallocFromPoolAsync";
    case AllocationFunction::kMallocPitch:
      return "hipMallocPitch";
    case AllocationFunction::kMalloc3D:
      return "hipMalloc3D";
    case AllocationFunction::kMallocManaged:
      return "hipMallocManaged";
    case AllocationFunction::kHostMalloc:
      return "hipHostMalloc";
  }
  return "";
}

bool asks_for_call_sites(const Policy& policy) noexcept { return policy.needs_callsite() || policy.report.callsites; }

}  // namespace

void open_call_sites(const Policy& policy) noexcept {
  if (asks_for_call_sites(policy)) static_cast<void>(callsites().open());
}

void prepare_buffer_rules(const Policy& policy) noexcept {
  g_unwind = asks_for_call_sites(policy);
  if (!g_unwind) return;
  if (!callsites().ready()) {
    g_unwind = false;
    log_warn("libunwind.so.8 cannot be opened: rules about call sites match nothing");
  }
  g_key_by_site = g_unwind;
}

Decision decide_by_policy(const AllocationRequest& request) {
  AllocationQuery query;
  query.size_bytes = request.bytes;
  query.device = static_cast<std::uint32_t>(request.device);
  query.function = function_name(request.function);
  query.module = callsites().caller_module(t_caller);
  Decision decision;
  const BufferRule* rule;
  if (g_unwind) {
    const CallSites::Index stack = callsites().here();
    StackSite site(callsites(), stack, callsites().next_order(stack));
    query.callsite = stack == FrameTree::kUnknown ? nullptr : &site;
    rule = policy().match(query);
    decision.call_site = stack == FrameTree::kUnknown ? 0 : stack;
    decision.by_call_site = g_key_by_site && decision.call_site != 0;
  } else {
    rule = policy().match(query);
  }
  decision.pool = rule != nullptr && rule->action == Action::kPool;
  if (rule != nullptr) {
    decision.rule = static_cast<std::uint32_t>(rule - policy().buffers.data()) + 1;
    decision.backing = rule->backing == Backing::kVmm ? BlockBacking::kVmm : BlockBacking::kClassic;
  }
  return decision;
}

const BufferRule* rule_of(const Block& block) noexcept {
  return block.rule == 0 || block.rule > policy().buffers.size() ? nullptr : &policy().buffers[block.rule - 1];
}

}  // namespace graphpool
