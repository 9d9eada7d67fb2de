// exec_uses.h: lists the program's execs that hold one of the runtime's, in the order of their last use, and knows
// which of them a call uses now.
//
// Why: where execs have a limit of memory (graphs/exec_limit.h), the one that was not used for longest gives its exec
// of the runtime's back. It must not do so while a call of the program uses it.
// Threads: its user locks. Not here: what may go, and how it goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

namespace graphpool {

class ProgramExec;

class ExecUses {
 public:
  /// oldest() stops after so many execs that still run: those that were used later probably run, too.
  static constexpr std::size_t kMostRunning = 16;

  struct Entry {
    Entry(ProgramExec& its_exec, int its_device) : exec(&its_exec), device(its_device), node{this} {}

    ProgramExec* exec;
    const int device;
    std::uint32_t uses = 0;       ///< calls of the program that use it now
    std::uint64_t last_used = 0;  ///< ExecStore::tick()
    bool listed = false;          ///< it holds an exec of the runtime's
    std::list<Entry*> node;       ///< its place in the list, kept here while it is not listed
    std::list<Entry*>::iterator place = node.begin();
  };

  /// A call of the program begins to use the exec.
  void begin(Entry& entry, std::uint64_t now) noexcept {
    ++entry.uses;
    entry.last_used = now;
    if (entry.listed) holding_.splice(holding_.end(), holding_, entry.place);
  }
  static void end(Entry& entry) noexcept { --entry.uses; }

  /// enlist(): it holds an exec of the runtime's from now on. leave(): not any more.
  void enlist(Entry& entry) noexcept {
    if (entry.listed) return;
    holding_.splice(holding_.end(), entry.node);
    entry.listed = true;
  }
  void leave(Entry& entry) noexcept {
    if (!entry.listed) return;
    entry.node.splice(entry.node.end(), holding_, entry.place);
    entry.listed = false;
  }

  enum class Verdict : std::uint8_t { kGoes, kStays, kRuns };
  struct Oldest {
    Entry* entry = nullptr;  ///< null: none may go
    bool some_run = false;   ///< others may go later
  };
  /// Finds the least recently used exec of the device (all: -1) that no call uses and `judge(exec)` lets go.
  template <typename Judge>
  Oldest oldest(int device, Judge&& judge) {
    Oldest found;
    std::size_t running = 0;
    for (Entry* const entry : holding_) {
      if (device >= 0 && entry->device != device) continue;
      const Verdict verdict = entry->uses != 0 ? Verdict::kRuns : judge(*entry->exec);
      if (verdict == Verdict::kStays) continue;
      if (verdict == Verdict::kGoes) {
        found.entry = entry;
        return found;
      }
      found.some_run = true;
      if (++running == kMostRunning) return found;
    }
    return found;
  }

 private:
  std::list<Entry*> holding_;  ///< the one used last comes last
};

}  // namespace graphpool
