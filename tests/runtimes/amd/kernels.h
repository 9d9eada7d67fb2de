// kernels.h: loaded kernels, and what a dispatch of one does.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "abi.h"

namespace hsa_cpu {

struct Agent;

/// A kernel of a loaded code object. A dispatch names it by the address of its descriptor (NAME.kd).
struct Kernel {
  std::string name;
  const Agent* agent;
  std::uint64_t descriptor;
  std::uint32_t kernarg_bytes, group_bytes, private_bytes;
};

/// The kernel of this descriptor; null where it is not loaded (any more).
std::shared_ptr<const Kernel> find_kernel(std::uint64_t descriptor);

/// Runs a dispatch to its end, or until `stop`. Returns what the queue is to report.
hsa_status_t run_dispatch(const hsa_kernel_dispatch_packet_t& packet, const Kernel& kernel, const amd_queue_t* queue,
                          const std::atomic<bool>& stop);

/// Code that instructions are decoded from. What was decoded of it is forgotten when it goes.
void code_loaded(const char* base, std::size_t bytes);
void code_unloaded(const char* base);

}  // namespace hsa_cpu
