// checked.h: checked mode: which memory each device may touch, and what was touched that may not be.
//
// The ledger knows all memory that kernels and copies may name, to the byte that was asked for: by whom it was
// allocated, what devices may reach it, which parts of it a library keeps (memory_use.h), and what became of what is
// gone. Where checked mode is off it is empty, and nothing but `checked()` is asked.
//
// Threads: any. The ledger's lock is taken after any other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "settings.h"

namespace hsa_cpu {

/// Whether HSACPU_CHECKED asks for it.
inline bool checked() {
  static const bool wanted = settings().checked != 0;
  return wanted;
}

/// The exit code of a process with findings.
constexpr int kFindingsExit = 86;

/// A bit for each agent, by its node: the host's is the first.
using Agents = std::uint64_t;
constexpr Agents kAllAgents = ~Agents{0};
constexpr Agents agent_bit(std::uint32_t node) { return Agents{1} << node; }

enum class MemoryIs : std::uint8_t { Allocation, CodeObject, Mapping, LockedHost, OtherProcess, Runtime };

/// Memory that agents may touch from now on. `own`: the device it is of, -1: the host.
void ledger_add(const void* base, std::size_t bytes, MemoryIs what, int device, Agents readers, Agents writers);
/// Nobody may any more. What lies there is remembered as gone.
void ledger_remove(const void* base);
/// Exactly these, and `owner` of it, may touch the allocation that begins there.
void ledger_allow(const void* base, Agents agents);
/// What these agents may do with the mappings inside; of others nothing changes.
void ledger_permit(const void* base, std::size_t bytes, Agents agents, bool read, bool write);
/// Host memory may be locked several times, overlapping.
void ledger_lock(const void* host, std::size_t bytes, Agents agents);
void ledger_unlock(const void* host);

/// Instead of munmap(): the addresses are not handed out again for a while, so that an old pointer leads nowhere.
void retire_addresses(char* base, std::size_t mapped);

/// What an agent may touch around an address, as long as the ledger does not change. Empty: begin == end.
struct Part {
  std::uint64_t begin, end;
};
Part ledger_part(std::uint64_t address, std::uint32_t node, bool writes);
extern std::atomic<std::uint64_t> ledger_changes;

/// Where a thread is: return addresses.
struct CallStack {
  static constexpr int kMost = 32;
  int thread = 0, depth = 0;
  void* frames[kMost] = {};
};
CallStack call_stack();

/// An access that is not allowed.
struct Access {
  std::uint64_t address;
  std::size_t bytes;
  std::uint32_t node;  ///< the agent's
  bool writes;
};
/// What made it: a kernel's instruction and lane, or a copy's function.
struct Place {
  std::string who, where, lane;
};
/// Tells of it: each place once for an allocation. `asked`: where a copy was asked for, or null.
void tell_finding(const Place& at, const Access& access, const CallStack* asked);

/// Whether the agent may touch all of it.
bool may_touch(const void* address, std::size_t bytes, std::uint32_t node, bool writes);
/// Whether all of it is memory of the host or of any device.
bool anybody_may_touch(const void* address, std::size_t bytes, bool writes);

/// How many places were told of.
std::uint64_t findings();

/// From now on, where the host itself runs into memory that is gone, it is told before the process dies of it: AMD's
/// runtimes make some copies by the processor.
void watch_host();

/// What the lanes of a dispatch may touch, with the parts that were touched last. Used by one thread.
class Guard {
 public:
  Guard(const char* kernel, std::uint64_t entry, std::uint32_t node) : kernel_(kernel), entry_(entry), node_(node) {}

  /// Memory of the dispatch itself, which no allocation holds: may be read.
  void add_own(const void* base, std::size_t bytes) {
    own_ = {reinterpret_cast<std::uint64_t>(base), reinterpret_cast<std::uint64_t>(base) + bytes};
  }

  bool may(std::uint64_t address, std::uint64_t bytes, bool writes) {
    const std::uint64_t changes = ledger_changes.load(std::memory_order_acquire);
    return (changes == seen_ && in_known_part(address, bytes, writes)) ||
           may_by_ledger(address, bytes, writes, changes);
  }
  /// False may also mean that the ledger would have to be asked.
  bool may_quickly(std::uint64_t address, std::uint64_t bytes, bool writes) const {
    return ledger_changes.load(std::memory_order_acquire) == seen_ && in_known_part(address, bytes, writes);
  }
  void refused(const char* mnemonic, std::uint64_t at, int lane, std::uint64_t address, std::size_t bytes,
               bool writes) const;

 private:
  static constexpr int kParts = 4;
  bool in_known_part(std::uint64_t address, std::uint64_t bytes, bool writes) const {
    const std::uint64_t end = address + bytes;
    for (const Part& part : parts_[writes ? 1 : 0])
      if (address >= part.begin && end <= part.end && end >= address) return true;
    return false;
  }
  bool may_by_ledger(std::uint64_t address, std::uint64_t bytes, bool writes, std::uint64_t changes);

  const char* kernel_;
  std::uint64_t entry_;
  std::uint32_t node_;
  std::uint64_t seen_ = ~std::uint64_t{0};
  Part parts_[2][kParts] = {};
  unsigned next_[2] = {};
  Part own_ = {};
};

}  // namespace hsa_cpu
