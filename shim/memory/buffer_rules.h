// buffer_rules.h: the policy's answer to "what is to be done with this allocation?": joins the policy's rules with the
// caller's module and, where some rule asks, its call site.
//
// Cost: without rules about call sites a lookup of the caller's module (remembered by return address) and one pass over
// the rules; with them, also unwinding. Threads: any; no lock held.
#pragma once

#include "shim/memory/device_memory.h"

namespace graphpool {

struct BufferRule;
struct Policy;

/// Notes where the program's code is, and opens libunwind if a rule or the report asks for call sites. Any thread,
/// idempotent; calls dlopen: not under a lock.
void open_call_sites(const Policy& policy) noexcept;

/// Before the first allocation, after open_call_sites().
void prepare_buffer_rules(const Policy& policy) noexcept;

/// The pool's Decider: Decision::rule is the matching rule's position in Policy::buffers, from 1.
Decision decide_by_policy(const AllocationRequest& request);

/// The rule that decided about a block; null when none did.
const BufferRule* rule_of(const Block& block) noexcept;

}  // namespace graphpool
