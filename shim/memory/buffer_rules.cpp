#include "shim/memory/buffer_rules.h"

#include <algorithm>
#include <atomic>

#include "policy/policy.h"
#include "shim/base/log.h"
#include "shim/callsite/callsite.h"
#include "shim/hip/elf_image.h"
#include "shim/hip/entry.h"
#include "shim/hip/process_policy.h"

namespace graphpool {
namespace {

bool g_unwind = false;       ///< some rule or the report asks for call sites
bool g_key_by_site = false;  ///< memory goes back to the call site it came from
/// The program's own code. Its module is looked up once, because no other object is ever loaded there.
constinit std::atomic<std::uintptr_t> g_program_begin{0}, g_program_bytes{0};

bool in_program(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) - g_program_begin.load(std::memory_order_relaxed) <
         g_program_bytes.load(std::memory_order_relaxed);
}

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

/// A decision that asked for no call site, with all that it depends on but the policy.
struct KnownDecision {
  const void* caller = nullptr;  ///< null: the program itself
  std::uint64_t generation = 0;  ///< of the loaded objects; kProgram: the program itself
  std::size_t bytes = 0;
  int device = 0;
  AllocationFunction function{};
  Decision decision;

  bool answers(const AllocationRequest& request, const void* from, std::uint64_t objects) const noexcept {
    return caller == from && bytes == request.bytes && generation == objects && device == request.device &&
           function == request.function;
  }
};

/// The thread's last decisions, because programs allocate the same sizes again and again. There are few, because under
/// an auditor (LD_AUDIT) the loader has 1.6 KiB for the thread-local data of all libraries that are loaded at the
/// start.
constexpr std::size_t kKnownDecisions = 16;
constexpr std::uint64_t kProgram = ~std::uint64_t{0};
constinit thread_local KnownDecision t_known[kKnownDecisions]{};

KnownDecision& known_decision(std::size_t bytes, const void* caller) noexcept {
  const std::uint64_t hash = (bytes ^ reinterpret_cast<std::uintptr_t>(caller)) * 0x9E3779B97F4A7C15u;
  return t_known[hash >> 60];
}
static_assert(kKnownDecisions == 16, "the hash is of 4 bits");

bool asks_for_call_sites(const Policy& policy) noexcept { return policy.needs_callsite() || policy.report.callsites; }

}  // namespace

void open_call_sites(const Policy& policy) noexcept {
  if (asks_for_call_sites(policy)) static_cast<void>(callsites().open());
  const CodeRange program = program_code();
  g_program_begin.store(program.begin, std::memory_order_relaxed);
  g_program_bytes.store(program.bytes, std::memory_order_relaxed);
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
  const bool program = in_program(t_caller);
  const void* const caller = program ? nullptr : t_caller;
  const std::uint64_t generation = g_unwind ? 0 : program ? kProgram : Symbols::generation();
  KnownDecision& known = known_decision(request.bytes, caller);
  if (!g_unwind && known.answers(request, caller, generation)) return known.decision;
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
  if (!g_unwind) known = {caller, generation, request.bytes, request.device, request.function, decision};
  return decision;
}

const BufferRule* rule_of(const Block& block) noexcept {
  return block.rule == 0 || block.rule > policy().buffers.size() ? nullptr : &policy().buffers[block.rule - 1];
}

}  // namespace graphpool
