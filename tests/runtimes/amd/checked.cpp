#include "checked.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>

#include "abi.h"

namespace hsa_cpu {

std::atomic<std::uint64_t> ledger_changes{0};

namespace {

/// A part of memory and who had it.
struct Record {
  std::uint64_t number, base, bytes;
  MemoryIs what;
  int device;
  Agents readers, writers;
  CallStack allocated, freed;

  std::uint64_t end() const { return base + bytes; }
  bool holds(std::uint64_t address) const { return address - base < bytes; }
};

/// Bytes of live memory that a library keeps.
struct Kept {
  std::uint64_t end;
  CallStack since;
};

enum class Why : std::uint8_t { Freed, Kept, Beyond, OtherDevice, ReadOnly, Unknown };

struct Explanation {
  Why why;
  std::uint64_t address;  ///< the first byte that may not be touched
  std::optional<Record> nearest;
  CallStack kept;
};

class Ledger {
 public:
  void add(Record record) {
    const std::scoped_lock guard(mutex_);
    record.number = ++last_number_;
    live_[record.base] = record;
    changed();
  }

  void remove(std::uint64_t base, const CallStack& by) {
    const std::scoped_lock guard(mutex_);
    const auto found = live_.find(base);
    if (found == live_.end()) return;
    forget_kept(found->second.base, found->second.end());
    remember(found->second, by);
    live_.erase(found);
    changed();
  }

  void allow(std::uint64_t base, Agents agents) {
    const std::scoped_lock guard(mutex_);
    const auto found = live_.find(base);
    if (found == live_.end()) return;
    const Agents owner = agent_bit(static_cast<std::uint32_t>(found->second.device + 1));
    found->second.readers = found->second.writers = agents | owner;
    changed();
  }

  void permit(std::uint64_t base, std::size_t bytes, Agents agents, bool read, bool write) {
    const std::scoped_lock guard(mutex_);
    for (auto it = live_.lower_bound(base); it != live_.end() && it->first < base + bytes; ++it) {
      Record& record = it->second;
      if (record.what != MemoryIs::Mapping) continue;
      record.readers = read ? record.readers | agents : record.readers & ~agents;
      record.writers = write ? record.writers | agents : record.writers & ~agents;
    }
    changed();
  }

  void lock(Record record) {
    const std::scoped_lock guard(mutex_);
    record.number = ++last_number_;
    locked_.emplace(record.base, record);
    changed();
  }

  void unlock(std::uint64_t base, const CallStack& by) {
    const std::scoped_lock guard(mutex_);
    const auto found = locked_.find(base);
    if (found == locked_.end()) return;
    remember(found->second, by);
    locked_.erase(found);
    changed();
  }

  void keep(std::uint64_t begin, std::uint64_t end, const CallStack& by) {
    const std::scoped_lock guard(mutex_);
    forget_kept(begin, end);
    kept_[begin] = {end, by};
    changed();
  }

  void hand_out(std::uint64_t begin, std::uint64_t end) {
    const std::scoped_lock guard(mutex_);
    forget_kept(begin, end);
    changed();
  }

  Part part(std::uint64_t address, std::uint32_t node, bool writes) const {
    const std::shared_lock guard(mutex_);
    return part_of(address, agent_bit(node), writes);
  }

  /// Whether the agent may touch all of it; mappings may lie side by side.
  bool may(std::uint64_t address, std::size_t bytes, Agents agent, bool writes) const {
    const std::shared_lock guard(mutex_);
    return first_refused(address, bytes, agent, writes) == address + bytes;
  }

  /// Whether no entry holds the address, neither a live nor a gone one: it is memory of the host, then.
  bool is_unknown(std::uint64_t address) const {
    const std::shared_lock guard(mutex_);
    return live_at(address) == nullptr && gone_at(address) == nullptr;
  }

  bool is_gone(std::uint64_t address) const {
    const std::shared_lock guard(mutex_);
    return live_at(address) == nullptr && gone_at(address) != nullptr;
  }

  Explanation explain(const Access& access) const {
    const std::shared_lock guard(mutex_);
    const Agents agent = agent_bit(access.node);
    const std::uint64_t bad = first_refused(access.address, access.bytes, agent, access.writes);
    if (const Record* const live = live_at(bad)) {
      if (const auto kept = kept_at(bad); kept != kept_.end()) return {Why::Kept, bad, *live, kept->second.since};
      return {(live->readers & agent) == 0 ? Why::OtherDevice : Why::ReadOnly, bad, *live, {}};
    }
    for (const auto& [base, record] : locked_)
      if (record.holds(bad)) return {Why::OtherDevice, bad, record, {}};
    if (const Record* const gone = gone_at(bad)) return {Why::Freed, bad, *gone, {}};
    const Record* const near = nearest(bad);
    constexpr std::uint64_t kNear = 4096;
    const bool beyond = near != nullptr && bad >= near->end() && bad - near->end() < kNear;
    return {beyond ? Why::Beyond : Why::Unknown, bad, near == nullptr ? std::nullopt : std::optional(*near), {}};
  }

 private:
  using KeptParts = std::map<std::uint64_t, Kept>;

  void changed() { ledger_changes.fetch_add(1, std::memory_order_release); }

  void remember(const Record& record, const CallStack& by) {
    constexpr std::size_t kRemembered = 8192;
    gone_.push_back(record);
    gone_.back().freed = by;
    if (gone_.size() > kRemembered) gone_.pop_front();
  }

  /// Takes these bytes out of the parts that a library keeps. A part that reaches beyond them is cut.
  void forget_kept(std::uint64_t begin, std::uint64_t end) {
    auto it = kept_.upper_bound(begin);
    if (it != kept_.begin()) --it;
    while (it != kept_.end() && it->first < end) {
      const std::uint64_t from = it->first;
      const Kept old = it->second;
      if (old.end <= begin) {
        ++it;
        continue;
      }
      it = kept_.erase(it);
      if (from < begin) kept_[from] = {begin, old.since};
      if (old.end > end) kept_[end] = {old.end, old.since};
    }
  }

  const Record* live_at(std::uint64_t address) const {
    auto it = live_.upper_bound(address);
    if (it == live_.begin()) return nullptr;
    --it;
    return it->second.holds(address) ? &it->second : nullptr;
  }
  const Record* gone_at(std::uint64_t address) const {
    const auto found = std::find_if(gone_.rbegin(), gone_.rend(), [&](const Record& it) { return it.holds(address); });
    return found == gone_.rend() ? nullptr : &*found;
  }
  KeptParts::const_iterator kept_at(std::uint64_t address) const {
    auto it = kept_.upper_bound(address);
    if (it == kept_.begin()) return kept_.end();
    --it;
    return address < it->second.end ? it : kept_.end();
  }

  Part part_of(std::uint64_t address, Agents agent, bool writes) const {
    if (const Record* const record = live_at(address)) {
      if (((writes ? record->writers : record->readers) & agent) == 0 || kept_at(address) != kept_.end()) return {0, 0};
      Part part{record->base, record->end()};
      const auto after = kept_.upper_bound(address);
      if (after != kept_.end()) part.end = std::min(part.end, after->first);
      if (after != kept_.begin()) part.begin = std::max(part.begin, std::prev(after)->second.end);
      return part;
    }
    Part part{0, 0};
    for (const auto& [base, record] : locked_)
      if (record.holds(address) && (record.readers & agent) != 0 && record.end() > part.end)
        part = {base, record.end()};
    return part;
  }

  /// The first address of the access that the agent may not touch; the end of the access where it may touch all.
  std::uint64_t first_refused(std::uint64_t address, std::size_t bytes, Agents agent, bool writes) const {
    const std::uint64_t end = address + bytes;
    while (address < end) {
      const Part part = part_of(address, agent, writes);
      if (part.begin == part.end) return address;
      address = part.end;
    }
    return end;
  }

  const Record* nearest(std::uint64_t address) const {
    const auto after = live_.upper_bound(address);
    const Record* const above = after == live_.end() ? nullptr : &after->second;
    if (after == live_.begin()) return above;
    const Record* const below = &std::prev(after)->second;
    return above == nullptr || address - below->end() <= above->base - address ? below : above;
  }

  mutable std::shared_mutex mutex_;
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, Record> live_;
  std::multimap<std::uint64_t, Record> locked_;
  KeptParts kept_;
  std::deque<Record> gone_;  ///< the newest last
};

Ledger& ledger() {
  static auto* const made = new Ledger;
  return *made;
}

std::uint64_t number_of(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

const char* name_of(MemoryIs what) {
  switch (what) {
    case MemoryIs::Allocation:
      return "allocation";
    case MemoryIs::CodeObject:
      return "code object";
    case MemoryIs::Mapping:
      return "mapping";
    case MemoryIs::LockedHost:
      return "locked host memory";
    case MemoryIs::OtherProcess:
      return "memory of another process";
    case MemoryIs::Runtime:
      return "memory of the runtime";
  }
  return "";
}

const char* gone_word(MemoryIs what) {
  switch (what) {
    case MemoryIs::CodeObject:
      return "unloaded";
    case MemoryIs::Mapping:
      return "unmapped";
    case MemoryIs::LockedHost:
      return "unlocked";
    case MemoryIs::OtherProcess:
      return "detached";
    case MemoryIs::Allocation:
    case MemoryIs::Runtime:
      break;
  }
  return "freed";
}

std::string agent_name(int device) { return device < 0 ? "the host" : "device " + std::to_string(device); }

std::string hex(std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "%#lx", value);
  return text;
}

/// Why an access is not allowed: one word for programs that read the journal, and a sentence for people.
struct Told {
  const char* kind;
  std::string sentence;
};
Told reason(const Explanation& found, const Access& access) {
  switch (found.why) {
    case Why::Freed:
      return {gone_word(found.nearest->what), std::string("memory that was ") + gone_word(found.nearest->what)};
    case Why::Kept:
      return {"kept", "memory that is not the program's: the library keeps it"};
    case Why::Beyond:
      return {"beyond", "beyond the end of an allocation"};
    case Why::OtherDevice:
      return {"device", agent_name(static_cast<int>(access.node) - 1) + " has no access to it"};
    case Why::ReadOnly:
      return {"read_only", "it may only be read"};
    case Why::Unknown:
      break;
  }
  return {"unknown", "memory that nobody allocated"};
}

/// Describes the nearest piece of memory, and how far from it the first byte lies that may not be touched.
std::string position(const Record& record, std::uint64_t address) {
  std::string text = std::string(name_of(record.what)) + " " + std::to_string(record.number) + ": " +
                     std::to_string(record.bytes) + " bytes of " + agent_name(record.device) + " at " +
                     hex(record.base) + "; the access is ";
  if (address < record.base) return text + std::to_string(record.base - address) + " bytes before it";
  if (record.holds(address)) return text + std::to_string(address - record.base) + " bytes inside";
  return text + std::to_string(address - record.end()) + " bytes beyond its end";
}

/// The load address of the program itself, which is the first object in the loader's list.
const void* program_base() {
  const auto first = [](dl_phdr_info* info, std::size_t, void* out) {
    *static_cast<std::uint64_t*>(out) = info->dlpi_addr + info->dlpi_phdr[0].p_vaddr;
    return 1;
  };
  std::uint64_t inside = 0;
  dl_iterate_phdr(first, &inside);
  Dl_info found{};
  dladdr(reinterpret_cast<const void*>(inside), &found);
  return found.dli_fbase;
}

/// Writes return addresses as library+offset, with the symbol where the library has its name. Leaves out addresses in
/// this library. Of several addresses in a row in another library it writes only the one by which that library was
/// entered; of the program it writes all.
std::string text_of(const CallStack& stack) {
  Dl_info own{}, found[CallStack::kMost] = {};
  dladdr(reinterpret_cast<void*>(&text_of), &own);
  const void* const program = program_base();
  for (int i = 0; i < stack.depth; ++i) dladdr(stack.frames[i], &found[i]);
  std::string text = "thread " + std::to_string(stack.thread);
  for (int i = 0; i < stack.depth; ++i) {
    const Dl_info& here = found[i];
    const bool entered = i + 1 == stack.depth || found[i + 1].dli_fbase != here.dli_fbase;
    if (here.dli_fbase == own.dli_fbase || (!entered && here.dli_fbase != program)) continue;
    if (here.dli_fname == nullptr) {
      text += " < " + hex(number_of(stack.frames[i]));
      continue;
    }
    const char* const slash = std::strrchr(here.dli_fname, '/');
    text += std::string(" < ") + (slash == nullptr ? here.dli_fname : slash + 1);
    text += "+" + hex(number_of(stack.frames[i]) - number_of(here.dli_fbase));
    if (here.dli_sname != nullptr) text += std::string(" (") + here.dli_sname + ")";
  }
  return text;
}

std::mutex& telling() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}
std::atomic<std::uint64_t> told_count{0};

Record record_of(const void* base, std::size_t bytes, MemoryIs what, int device, Agents readers, Agents writers) {
  return {0, number_of(base), bytes, what, device, readers, writers, call_stack(), {}};
}

struct sigaction before_watching {};

void on_fault(int, siginfo_t* info, void* context) {
  constexpr greg_t kWrites = 2;  // of the processor's page fault error
  const bool writes = (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWrites) != 0;
  const std::uint64_t address = number_of(info->si_addr);
  const CallStack here = call_stack();
  if (ledger().is_gone(address)) tell_finding({"the host", "the processor", ""}, {address, 1, 0, writes}, &here);
  // The handler that was there before gets the fault: the instruction runs again and faults again.
  sigaction(SIGSEGV, &before_watching, nullptr);
}

struct End {
  ~End() {
    if (!checked()) return;
    journal("checked findings=%lu", findings());
    if (findings() == 0) return;
    complain("checked: %lu findings; the process ends with %d", findings(), kFindingsExit);
    std::fflush(nullptr);
    _exit(kFindingsExit);
  }
};
// AMD's runtimes need this library, so the loader ends them before it: what they touch at the end is still counted.
const End at_the_end;

}  // namespace

CallStack call_stack() {
  CallStack stack;
  stack.thread = static_cast<int>(gettid());
  stack.depth = backtrace(stack.frames, CallStack::kMost);
  return stack;
}

void ledger_add(const void* base, std::size_t bytes, MemoryIs what, int device, Agents readers, Agents writers) {
  if (checked()) ledger().add(record_of(base, bytes, what, device, readers, writers));
}
void ledger_remove(const void* base) {
  if (checked()) ledger().remove(number_of(base), call_stack());
}
void ledger_allow(const void* base, Agents agents) {
  if (checked()) ledger().allow(number_of(base), agents);
}
void ledger_permit(const void* base, std::size_t bytes, Agents agents, bool read, bool write) {
  if (checked()) ledger().permit(number_of(base), bytes, agents, read, write);
}
void ledger_lock(const void* host, std::size_t bytes, Agents agents) {
  if (checked()) ledger().lock(record_of(host, bytes, MemoryIs::LockedHost, -1, agents, agents));
}
void ledger_unlock(const void* host) {
  if (checked()) ledger().unlock(number_of(host), call_stack());
}

Part ledger_part(std::uint64_t address, std::uint32_t node, bool writes) {
  return ledger().part(address, node, writes);
}

void retire_addresses(char* base, std::size_t mapped) {
  struct Retired {
    std::mutex mutex;
    std::deque<std::pair<char*, std::size_t>> parts;
  };
  static auto* const retired = new Retired;
  constexpr std::size_t kMost = 4096;
  mmap(base, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  const std::scoped_lock guard(retired->mutex);
  retired->parts.emplace_back(base, mapped);
  if (retired->parts.size() <= kMost) return;
  const auto [oldest, bytes] = retired->parts.front();
  retired->parts.pop_front();
  munmap(oldest, bytes);
}

bool may_touch(const void* address, std::size_t bytes, std::uint32_t node, bool writes) {
  const std::uint64_t at = number_of(address);
  // The host allocates memory of its own that the ledger never hears of.
  if (node == 0 && ledger().is_unknown(at)) return true;
  return ledger().may(at, bytes, agent_bit(node), writes);
}

bool anybody_may_touch(const void* address, std::size_t bytes, bool writes) {
  const std::uint64_t at = number_of(address);
  return ledger().is_unknown(at) || ledger().may(at, bytes, kAllAgents, writes);
}

void tell_finding(const Place& at, const Access& access, const CallStack* asked) {
  const Explanation found = ledger().explain(access);
  const Told told = reason(found, access);
  const std::uint64_t number = found.nearest ? found.nearest->number : 0;
  const std::scoped_lock guard(telling());
  static auto* const before = new std::set<std::string>;
  if (!before->insert(at.who + at.where + told.kind + std::to_string(number)).second) return;
  told_count.fetch_add(1);
  journal("finding kind=%s who=%s where=%s address=%#lx bytes=%zu allocation=%lu", told.kind, at.who.c_str(),
          at.where.c_str(), access.address, access.bytes, number);
  complain("checked: %s: %s%s %s %zu bytes at %#lx: %s", at.who.c_str(), at.where.c_str(), at.lane.c_str(),
           access.writes ? "writes" : "reads", access.bytes, access.address, told.sentence.c_str());
  if (asked != nullptr) complain("    asked for by %s", text_of(*asked).c_str());
  if (found.nearest) {
    complain("    %s", position(*found.nearest, found.address).c_str());
    complain("    allocated by %s", text_of(found.nearest->allocated).c_str());
  }
  if (found.why == Why::Freed)
    complain("    %s by %s", gone_word(found.nearest->what), text_of(found.nearest->freed).c_str());
  if (found.why == Why::Kept) complain("    kept since %s", text_of(found.kept).c_str());
  if (settings().checked > 1) std::abort();
}

std::uint64_t findings() { return told_count.load(); }

void watch_host() {
  if (!checked()) return;
  // The first call stack loads a library. That must not happen later, while a thread holds a lock.
  static_cast<void>(call_stack());
  struct sigaction wanted {};
  wanted.sa_sigaction = on_fault;
  wanted.sa_flags = SA_SIGINFO;
  static std::once_flag once;
  std::call_once(once, [&] { sigaction(SIGSEGV, &wanted, &before_watching); });
}

bool Guard::may_by_ledger(std::uint64_t address, std::uint64_t bytes, bool writes, std::uint64_t changes) {
  if (changes != seen_) {
    std::memset(parts_, 0, sizeof parts_);
    seen_ = changes;
  }
  if (!writes && address >= own_.begin && address + bytes <= own_.end) return true;
  const Part part = ledger_part(address, node_, writes);
  if (part.begin == part.end) return false;
  parts_[writes ? 1 : 0][next_[writes ? 1 : 0]++ % kParts] = part;
  return address + bytes <= part.end || ledger().may(address, bytes, agent_bit(node_), writes);
}

void Guard::refused(const char* mnemonic, std::uint64_t at, int lane, std::uint64_t address, std::size_t bytes,
                    bool writes) const {
  const std::string where =
      std::string(mnemonic) + " at " + (at < entry_ ? "-" : "+") + hex(at < entry_ ? entry_ - at : at - entry_);
  const std::string in_lane = lane < 0 ? "" : ", lane " + std::to_string(lane) + ",";
  tell_finding({"kernel " + std::string(kernel_), where, in_lane}, {address, bytes, node_, writes}, nullptr);
}

}  // namespace hsa_cpu

using namespace hsa_cpu;

// A library that keeps memory after the program has freed it calls these (shim/memory/memory_use.h).
HSA_CPU_API void hsa_cpu_memory_kept(const void* base, std::size_t bytes) {
  if (checked()) ledger().keep(number_of(base), number_of(base) + bytes, call_stack());
}
HSA_CPU_API void hsa_cpu_memory_handed_out(const void* base, std::size_t bytes) {
  if (checked()) ledger().hand_out(number_of(base), number_of(base) + bytes);
}
