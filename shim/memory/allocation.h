// allocation.h: describes an allocation of the program's: what was asked for, what the policy answers, and the key by
// which freed memory is found again.
//
// Why a key: freed memory is handed out again only for a request that the runtime would have answered alike. So the key
// has the exact size, device, flags, function and backing, the policy's rule and, if some rule or the report asks for
// call sites, the call site that allocates. Threads: values. Units: bytes. Not here: the policy's rules
// (buffer_rules.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "shim/memory/block_table.h"

namespace graphpool {

struct AllocationRequest {
  AllocationFunction function = AllocationFunction::kMalloc;
  std::size_t bytes = 0;
  int device = 0;
  unsigned flags = 0;
  hipStream_t stream = nullptr;  ///< the stream of a hipMallocAsync
};

/// What the library does with a request.
struct Decision {
  bool pool = true;
  BlockBacking backing = BlockBacking::kClassic;
  std::uint32_t rule = 0;
  std::uint32_t call_site = 0;
  bool by_call_site = false;  ///< only memory that the same call site had allocated is handed out
};

/// Is asked for every allocation that BlockPool::allocate() gets on a known device, without a lock held. It must be
/// quick, and may unwind. Without a decider nothing is pooled.
using Decider = Decision (*)(const AllocationRequest&);

struct BlockKey {
  std::size_t bytes = 0;
  int device = 0;
  unsigned flags = 0;
  std::uint32_t rule = 0;
  std::uint32_t call_site = 0;
  AllocationFunction function = AllocationFunction::kMalloc;
  BlockBacking backing = BlockBacking::kClassic;

  /// Every allocation compares keys, so there is no branch for each member.
  friend bool operator==(const BlockKey& a, const BlockKey& b) noexcept {
    return ((a.bytes ^ b.bytes) | static_cast<unsigned>(a.device ^ b.device) | (a.flags ^ b.flags) | (a.rule ^ b.rule) |
            (a.call_site ^ b.call_site) | (static_cast<unsigned>(a.function) ^ static_cast<unsigned>(b.function)) |
            (static_cast<unsigned>(a.backing) ^ static_cast<unsigned>(b.backing))) == 0;
  }

  struct Hash {
    std::size_t operator()(const BlockKey& key) const noexcept {
      std::uint64_t hash = key.bytes * 0x9E3779B97F4A7C15u;
      hash ^= (std::uint64_t{key.call_site} << 32 | key.rule) * 0xC2B2AE3D27D4EB4Fu;
      hash ^= static_cast<std::uint64_t>(key.device) << 8 ^ static_cast<std::uint64_t>(key.function) << 4 ^ key.flags ^
              static_cast<std::uint64_t>(key.backing) << 16;
      return hash ^ hash >> 29;
    }
  };
};

}  // namespace graphpool
