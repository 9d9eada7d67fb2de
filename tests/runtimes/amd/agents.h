// agents.h: the host and the devices: one CPU agent, HSACPU_DEVICES GPU agents, and their pools of memory.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "abi.h"

namespace hsa_cpu {

struct Agent;

/// What memory can be taken from.
struct Pool {
  Agent* agent;
  hsa_amd_segment_t segment;
  std::uint32_t flags;
  std::size_t bytes;
};

struct Agent {
  bool gpu;
  int index;  ///< of the GPU
  std::uint32_t node;
  std::size_t memory_bytes;
  std::string isa;  ///< of a GPU: amdgcn-amd-amdhsa--gfx906:...
  std::array<Pool, 3> pools;
};

/// The host first.
const std::vector<Agent*>& agents();
inline Agent* agent_of(hsa_agent_t handle) { return reinterpret_cast<Agent*>(handle.handle); }
inline Pool* pool_of(hsa_amd_memory_pool_t handle) { return reinterpret_cast<Pool*>(handle.handle); }
inline hsa_agent_t handle_of(const Agent* agent) { return {reinterpret_cast<std::uint64_t>(agent)}; }

}  // namespace hsa_cpu
