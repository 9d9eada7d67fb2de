// buffer_rules.h: answers, by the policy's rules, what is to be done with an allocation. It finds the caller's module
// and, if some rule or the report asks for call sites, the call site.
//
// Cost: if nobody asks for call sites, a look-up of the caller's module (remembered by return address) and one pass
// over the rules; a thread remembers its last decisions. Else unwinding each time. Threads: any; no lock held.
#pragma once

#include "shim/memory/device_memory.h"

namespace graphpool {

struct BufferRule;
struct Policy;

/// Notes where the program's code is, and opens libunwind if a rule or the report asks for call sites. Any thread may
/// call it, more than once. It calls dlopen, so the caller holds no lock.
void open_call_sites(const Policy& policy) noexcept;

/// Prepares decide_by_policy(). Call it before the first allocation, after open_call_sites().
void prepare_buffer_rules(const Policy& policy) noexcept;

/// The pool's Decider. Decision::rule is the matching rule's position in Policy::buffers, from 1.
Decision decide_by_policy(const AllocationRequest& request);

/// The rule that decided about a block; null when none did.
const BufferRule* rule_of(const Block& block) noexcept;

}  // namespace graphpool
