// checked.h: checked mode. It compares each access of kernels and copies with what the device may touch, and reports
// each access that is not allowed (a finding).
//
// The ledger is the list of all memory that kernels and copies may name, to the byte that was asked for. It holds who
// allocated a piece of memory, which devices may reach it, which parts of it a library keeps (memory_use.h), and, for
// memory that is gone, who freed it. Where checked mode is off, the ledger is empty and only checked() is called.
//
// Threads: any. A thread that holds other locks may take the ledger's; one that holds the ledger's takes no other.
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

/// A set of agents (HSA's word for the host and the devices): bit N stands for the agent of node N; the host is node 0.
using Agents = std::uint64_t;
constexpr Agents kAllAgents = ~Agents{0};
constexpr Agents agent_bit(std::uint32_t node) { return Agents{1} << node; }

enum class MemoryIs : std::uint8_t { Allocation, CodeObject, Mapping, LockedHost, OtherProcess, Runtime };

/// Enters memory that these agents may read and write from now on. `device`: the index of the device that the memory
/// belongs to; -1: the host.
void ledger_add(const void* base, std::size_t bytes, MemoryIs what, int device, Agents readers, Agents writers);
/// From now on nobody may touch the memory that begins there. The ledger remembers it as gone.
void ledger_remove(const void* base);
/// From now on these agents and the device that the memory belongs to may touch the allocation that begins there, and
/// no others.
void ledger_allow(const void* base, Agents agents);
/// Sets what these agents may do with the mappings that begin inside the range. What other agents may do stays.
void ledger_permit(const void* base, std::size_t bytes, Agents agents, bool read, bool write);
/// Enters, or takes out, host memory that is locked for these agents. Ranges may overlap and may be locked several
/// times.
void ledger_lock(const void* host, std::size_t bytes, Agents agents);
void ledger_unlock(const void* host);

/// Is called in the place of munmap(). Keeps the addresses from being handed out again for a while, so that an old
/// pointer leads to no other memory.
void retire_addresses(char* base, std::size_t mapped);

/// A range of addresses around an address, all of which an agent may touch until ledger_changes goes up. It is empty
/// (begin == end) where the agent may not touch the address.
struct Part {
  std::uint64_t begin, end;
};
Part ledger_part(std::uint64_t address, std::uint32_t node, bool writes);
extern std::atomic<std::uint64_t> ledger_changes;

/// The return addresses on a thread's stack, the innermost first.
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
  std::uint32_t node;  ///< the node of the agent that makes it
  bool writes;
};
/// What made an access: a kernel's instruction and lane, or a copy's function.
struct Place {
  std::string who, where, lane;
};
/// Reports an access on stderr and in the journal, once for each pair of a place and an allocation. `asked`: the call
/// stack of the program's call for a copy; null for a kernel.
void tell_finding(const Place& at, const Access& access, const CallStack* asked);

/// Whether the agent may touch all of it.
bool may_touch(const void* address, std::size_t bytes, std::uint32_t node, bool writes);
/// Whether all of it is memory of the host or of any device.
bool anybody_may_touch(const void* address, std::size_t bytes, bool writes);

/// How many findings were reported.
std::uint64_t findings();

/// Installs a handler of SIGSEGV that reports a host access to memory that is gone before the process dies of it. Why:
/// AMD's runtimes make some copies with the processor.
void watch_host();

/// Answers what the lanes of one dispatch (one run of a kernel) may touch. Remembers the parts that were touched last,
/// so that it seldom asks the ledger. One thread uses it.
class Guard {
 public:
  Guard(const char* kernel, std::uint64_t entry, std::uint32_t node) : kernel_(kernel), entry_(entry), node_(node) {}

  /// Allows reads of memory that belongs to the dispatch itself and lies in no allocation.
  void add_own(const void* base, std::size_t bytes) {
    own_ = {reinterpret_cast<std::uint64_t>(base), reinterpret_cast<std::uint64_t>(base) + bytes};
  }

  bool may(std::uint64_t address, std::uint64_t bytes, bool writes) {
    const std::uint64_t changes = ledger_changes.load(std::memory_order_acquire);
    return (changes == seen_ && in_known_part(address, bytes, writes)) ||
           may_by_ledger(address, bytes, writes, changes);
  }
  /// The same without asking the ledger. Returns false also where only the ledger knows.
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
