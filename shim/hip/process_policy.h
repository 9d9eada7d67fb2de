// process_policy.h: reads the policy of this process, once, from its file and the environment.
//
// Threads: any, also of a process that never calls HIP. Reading takes a lock and calls no dl* function but
// dl_iterate_phdr.
#pragma once

#include <vector>

#include "policy/policy.h"

namespace graphpool {

struct Given;

/// The policy, read if it has not been. Null: everything is to be passed through.
const Policy* policy_of_process() noexcept;

/// The process's policy. Pre-condition: policy_of_process() has returned it. That is so while the library is active or
/// draining.
const Policy& policy() noexcept;

/// The values that the policy's file and the environment gave. Null: there is no policy, or host memory was out.
const std::vector<Given>* policy_given() noexcept;

/// Whether another file of this library is loaded behind this one: then that one does the work.
bool another_copy_behind_us() noexcept;

}  // namespace graphpool
