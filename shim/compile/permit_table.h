// permit_table.h: which compilations run, in memory that all processes of a scope share.
//
// Why: permits must come back when their holder dies by any signal, also when a child it forked lives on (rule 34), and
// without a daemon. So each permit is a robust mutex that the holding thread keeps locked: the kernel marks it when the
// thread ends or its process execs, and a forked child does not own it. A second robust mutex guards the table; it is
// held for microseconds, never across anything that waits for another process, and waited for one second at most.
//
// A compilation is admitted while fewer than the limit run and its expected size fits into the memory that is left once
// those that run have grown to theirs. One may always run. A process that waits has its libraries' memory already:
// where little would be left, none is admitted beside others while more are just starting. Sizes are learnt by class
// (tool and kind of input) from what finished; one with a larger input is expected to need more in proportion. Where
// there is no room for two of a class of which none has finished, the process with the smallest input goes first: all
// others wait until it has. A holder that uses no processor time lends its permit on: it is not counted until it is
// seen to run again; one of another namespace of process numbers (a container's) cannot be looked at from here, and is
// taken to run.
//
// Riding (rule 35): a child process of a holder, or of a rider, uses its permit: one child at a time, while the
// permit's generation lasts.
//
// Under a jobserver of make a compilation also holds one of its job's tokens (jobserver.h). The table says which one
// has the token that each job has without reading it, and keeps bytes that were read by holders who died for the next
// who asks.
//
// What all processes of the scope did is counted beside the permits, for the report of any of them: counters that only
// go up, without the lock; and when each figure was last seen, so that a program can tell the most since it began. What
// a process that was killed had counted stays.
//
// Threads: any, of any process; a permit is given back by the thread that took it. Units: bytes, ns, clock ticks.
// The memory may be anyone's of the scope: every index read from it is checked. Not here: waiting (permit_wait.h).
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "shim/base/units.h"
#include "shim/compile/machine.h"
#include "shim/compile/memory_watch.h"

namespace graphpool {

inline constexpr std::uint32_t kMostPermits = 128;
inline constexpr std::uint32_t kMostRiders = 12;
inline constexpr std::uint32_t kMostClasses = 96;
inline constexpr std::size_t kClassNameBytes = 48;
inline constexpr std::uint32_t kMostOwedTokens = 64;
/// Permits of pool threads, which keep them while they sleep: others find some.
inline constexpr std::uint32_t kMostPoolThreads = kMostPermits / 2;
/// A pool thread that slept for less goes on where it was.
inline constexpr std::uint64_t kShortSleep = 100'000'000;
/// A pool thread stands still after this part of the time.
inline constexpr std::uint32_t kPoolThreadHaste = 10;

/// What a compilation is taken to need before any of its class has finished.
inline constexpr std::uint64_t kUnknownSizeBytes = 2 * kGiB;
/// Inputs up to here are taken to be equal: what a compiler needs without any is more.
inline constexpr std::uint64_t kLeastInputBytes = 64 * kKiB;
/// Compilations at once where no size is known.
inline constexpr std::uint32_t kUnknownSizeLimit = 8;
/// Pressure from which on nothing new is admitted beside what runs.
inline constexpr std::uint32_t kMostPressurePercent = 10;

/// A jobserver, by its pipe. inode 0: none.
struct TokenServer {
  std::uint64_t device = 0, inode = 0;
  bool operator==(const TokenServer&) const = default;
};

/// How a compilation comes to run under a jobserver.
enum class TokenKind : std::uint8_t {
  kNone,      ///< there is no jobserver, or it went on without
  kImplicit,  ///< its job's own
  kByte,      ///< one that was read
  kLent,      ///< the byte of a holder that stands still
};

struct SharedToken {
  TokenServer server;
  ProcessName job;
  TokenKind kind;
  std::uint8_t byte;
};

struct SizeClass {
  char name[kClassNameBytes];
  std::uint64_t peak_bytes;          ///< 0: none has finished
  std::uint64_t peak_virtual_bytes;  ///< of calls: address space
  std::uint64_t input_bytes;         ///< of the one with that peak
  std::uint64_t finished;
  std::uint64_t smallest_bytes;  ///< the smallest input that waited while none was known, and when it was seen
  std::uint64_t smallest_seen_ns;
};

struct SharedRider {
  ProcessName process;  ///< 0: free
  pid_t parent;         ///< the holder or rider it is a child of
};

/// One permit. Plain data: it is in shared memory.
struct SharedPermit {
  pthread_mutex_t owner;
  std::uint32_t generation;
  std::uint32_t class_index;
  ProcessName holder;
  pid_t thread;
  std::uint32_t in_process;      ///< taken by a call, not by a process for its life
  std::uint32_t pool_thread;     ///< by a thread for its life: it is looked at, not its process
  std::uint32_t shared_process;  ///< another compilation ran in the same process meanwhile
  std::uint32_t idle;            ///< lent on
  std::uint64_t asleep_ns;       ///< a pool thread that waits for work, since when; 0: it works
  std::uint64_t input_bytes;
  std::uint64_t expected_bytes;
  std::uint64_t base_bytes;  ///< there before it began
  std::uint64_t base_peak_bytes;
  // The same of address space.
  std::uint64_t expected_virtual_bytes, base_virtual_bytes, base_peak_virtual_bytes, grown_virtual_bytes;
  std::uint64_t grown_bytes;  ///< last seen
  std::uint64_t most_grown_bytes;
  std::uint64_t used_ticks;
  std::uint64_t looked_ns;   ///< when its memory was last looked at
  std::uint64_t checked_ns;  ///< when used_ticks was read
  std::uint64_t moved_ns;    ///< when processor time was last seen to be used
  SharedToken token;
  SharedRider riders[kMostRiders];
};

/// What all processes of a scope did, in numbers of compilations but for waited_ns. Each only goes up.
struct ScopeCounts {
  std::uint64_t granted = 0;    ///< permits given, those over the limit too
  std::uint64_t ridden = 0;     ///< compilations that rode on another's permit
  std::uint64_t waited = 0;     ///< waits that have ended: a waiter that was killed is not counted
  std::uint64_t waited_ns = 0;  ///< the sum of those waits
  std::uint64_t went_on = 0;    ///< over the limit, after the longest wait
  std::uint64_t without = 0;    ///< without a permit
};

inline constexpr std::uint64_t ScopeCounts::*kScopeCounters[] = {
    &ScopeCounts::granted,   &ScopeCounts::ridden,  &ScopeCounts::waited,
    &ScopeCounts::waited_ns, &ScopeCounts::went_on, &ScopeCounts::without,
};
static_assert(sizeof kScopeCounters / sizeof *kScopeCounters * sizeof(std::uint64_t) == sizeof(ScopeCounts),
              "every counter of ScopeCounts is listed");

/// Figures by size, in steps of an eighth: the last one of each step, and when that was. 0 ns: never.
struct SharedFigures {
  static constexpr std::uint32_t kSteps = 496;
  std::uint64_t seen_ns[kSteps], figures[kSteps];
};

/// One compilation that runs, for the report.
struct PermitHolder {
  pid_t process;  ///< as its own namespace numbers it
  char size_class[kClassNameBytes];
  bool lent;    ///< it uses no processor time, so its permit is lent on
  bool asleep;  ///< a pool thread that waits for work
};

/// The whole of a scope's memory.
struct SharedPermits {
  std::uint32_t ready;  ///< kReady once made
  std::uint32_t turn;   ///< changes whenever a permit is given back; waited for
  pthread_mutex_t lock;
  std::uint64_t held[kMostPermits / 64];
  std::uint64_t changed_ns;  ///< when a permit last changed hands
  ScopeCounts counts;
  std::uint64_t in_flight_ns[kMostPermits + 1];  ///< when so many were last in flight; 0: never
  SharedFigures held_bytes;                      ///< by all compilations together
  SharedFigures headroom_bytes;                  ///< left for more, where memory was read
  std::uint64_t elder_since_ns;                  ///< the longest waiter, while it says so (elder_seen_ns)
  std::uint64_t elder_seen_ns;
  std::uint64_t arrived_ns;  ///< when a process last began to ask
  std::uint64_t refused_ns;  ///< when memory was last found too little, and for how much
  std::uint64_t refused_bytes;
  std::uint32_t refused_turn;
  SizeClass classes[kMostClasses];
  SharedToken owed[kMostOwedTokens];  ///< bytes of the dead; kind kNone: free
  SharedPermit permits[kMostPermits];
};

inline constexpr std::uint32_t kReady = 0x67700006;

/// Makes zeroed memory a table. `shared`: other processes will use it.
void make_permits(SharedPermits& memory, bool shared) noexcept;

/// How many, decided by whoever asks.
struct PermitLimits {
  std::uint32_t most = kUnknownSizeLimit;
  bool is_auto = true;              ///< then sizes that are not known limit too
  std::uint64_t reserve_bytes = 0;  ///< to be left free
  std::uint64_t idle_ns = 10'000'000'000;
};

class PermitTable;

/// How a wait ends without a permit that was given.
enum class GoesOn : std::uint8_t { kNo, kOverTheLimit, kRiding };

struct PermitRequest {
  std::string_view size_class;
  std::uint64_t input_bytes = 0;
  bool in_process = false, pool_thread = false;
  std::uint64_t since_ns = 0;     ///< when the wait began
  std::uint64_t starting_ns = 0;  ///< of a process: how long it took until it asked
  ProcessMemory before = {};      ///< its process's memory when it began
  TokenServer server = {};        ///< a token of it is needed too
  ProcessName job = {};
  GoesOn (*goes_on)(PermitTable& table) = nullptr;  ///< asked now and then
  bool has_byte = false;                            ///< this one was read
  std::uint8_t byte = 0;
};

/// A permit, or a ride on one.
struct Permit {
  std::uint32_t index = kMostPermits;
  std::uint32_t generation = 0;
  std::uint32_t rider = kMostRiders;  ///< when riding
  pid_t process = 0;                  ///< a forked child holds nothing
  bool has_byte = false;              ///< of a jobserver: to be given back
  std::uint8_t byte = 0;
  [[nodiscard]] bool held() const noexcept { return index < kMostPermits; }
  [[nodiscard]] bool riding() const noexcept { return rider < kMostRiders; }
};

enum class Admission : std::uint8_t {
  kGranted,
  kFull,        ///< as many run as may
  kNoMemory,    ///< or under pressure
  kAskMemory,   ///< it depends on the memory, which the caller has not read
  kNoToken,     ///< only a byte of the jobserver is missing: the caller may read one and ask again
  kOthersTurn,  ///< somebody has waited much longer, or will show what this one needs
  kUnusable,    ///< the table cannot be used: go on without
};

class PermitTable {
 public:
  constexpr PermitTable() = default;
  PermitTable(SharedPermits& memory, const Machine& machine) noexcept : memory_(&memory), machine_(&machine) {}
  /// Another one of the same permits, while calls of other threads use this one.
  PermitTable(const PermitTable& other) noexcept : memory_(other.memory_), machine_(other.machine_) {}
  PermitTable& operator=(const PermitTable&) = default;

  /// Never waits longer than for the table's lock. memory: null while it has not been read; it is not asked for where
  /// somebody who needs no more was refused a moment ago: many waiters would read the same files.
  Admission try_take(const PermitRequest& request, const PermitLimits& limits, const MemoryFacts* memory,
                     Permit& permit) noexcept;
  /// Takes one over the limit. False: there is none left.
  bool take_anyway(const PermitRequest& request, Permit& permit) noexcept;
  /// Rides on the permit of a process, or on what that process rides on, if no other child of it does. Of a permit that
  /// a call took only while its thread sleeps: it may be waiting for the child. generation: 0 takes any.
  bool ride(const ProcessName& parent, std::uint32_t generation, Permit& permit) noexcept;
  /// A pool thread waits for work: its permit does not count, and what it expects only for a short time.
  void sleep(const Permit& permit) noexcept;
  /// It has work again. False: it slept for long, or as many run as may: it has to give its permit back and ask for
  /// one. anyway: it cannot wait.
  bool wake_up(const Permit& permit, const PermitLimits& limits, bool anyway) noexcept;
  /// A call of this process holds one and sleeps: it may be waiting for what the calling thread does, which rides on
  /// it.
  bool serve(Permit& permit) noexcept;
  /// now: this process's memory, to learn from; zeros: nothing is learnt. A byte of the jobserver that was not written
  /// back is kept for the next who asks.
  void give_back(const Permit& permit, const ProcessMemory& now) noexcept;
  /// The permit's byte has been written back.
  void byte_written(Permit& permit) noexcept;
  /// A byte of this server that nobody holds: false: there is none.
  bool take_owed_byte(const TokenServer& server, std::uint8_t& byte) noexcept;
  void owe_byte(const TokenServer& server, std::uint8_t byte) noexcept;

  /// Looks at the holders: who uses how much memory and processor time. Reads /proc without the lock. Of each holder
  /// memory is looked at twenty times a second at most, processor time four times.
  void look_at_holders(std::uint64_t idle_ns) noexcept;

  /// Running and not lent on. The dead are taken out first.
  std::uint32_t in_flight() noexcept;
  /// Counts for the whole scope, without the lock.
  void add(std::uint64_t ScopeCounts::*counter, std::uint64_t more = 1) noexcept;
  void saw_headroom(std::uint64_t bytes) noexcept;
  /// What the whole scope did, without the lock.
  [[nodiscard]] ScopeCounts counts() const noexcept;
  /// The most in flight at once since a time; 0: since the table was made.
  [[nodiscard]] std::uint32_t peak_in_flight(std::uint64_t since_ns = 0) const noexcept;
  /// The most that compilations held together, as far as it was seen: each is looked at while others wait or ask, and
  /// by its own peak when it ends. An eighth too little at most.
  [[nodiscard]] std::uint64_t most_held_bytes(std::uint64_t since_ns) const noexcept;
  /// The least that was left for more when somebody asked; an eighth too much at most. The largest number: nobody did.
  [[nodiscard]] std::uint64_t least_headroom_bytes(std::uint64_t since_ns) const noexcept;
  std::uint64_t changed_ns() const noexcept;
  /// What those that run will still grow by.
  std::uint64_t outstanding_bytes() noexcept;
  std::uint64_t expected_bytes(std::string_view size_class, std::uint64_t input_bytes = 0) noexcept;
  /// Copies the classes; returns how many.
  std::uint32_t classes(SizeClass* to, std::uint32_t most) noexcept;
  /// Who holds permits now, the lent ones too; returns how many.
  std::uint32_t holders(PermitHolder* to, std::uint32_t most) noexcept;
  std::uint32_t* turn() const noexcept { return &memory_->turn; }
  /// They ask again.
  void wake_waiters() const noexcept {
    __atomic_add_fetch(&memory_->turn, 1, __ATOMIC_RELEASE);
    machine_->wake(&memory_->turn);
  }

  /// Whether a permit is still held in the generation it was taken in. Without the lock: it may end at once.
  [[nodiscard]] bool lasts(const Permit& permit) const noexcept;
  [[nodiscard]] bool usable() const noexcept { return memory_ != nullptr; }

 private:
  class Lock;
  bool held(std::uint32_t index) const noexcept;
  void set_held(std::uint32_t index, bool value) noexcept;
  void free_the_dead() noexcept;
  std::uint32_t count() const noexcept;
  bool any_idle() const noexcept;
  std::uint32_t pool_threads() const noexcept;
  std::uint64_t outstanding(std::uint64_t& own_virtual) const noexcept;
  std::uint32_t find_class(std::string_view name) noexcept;
  std::uint64_t expected(std::uint32_t class_index, std::uint64_t input_bytes) const noexcept;
  std::uint64_t expected_virtual(std::uint32_t class_index, std::uint64_t input_bytes) const noexcept;
  std::uint64_t needed(const PermitRequest& request, std::uint32_t class_index) const noexcept;
  TokenKind token_for(const PermitRequest& request) const noexcept;
  bool grant(const PermitRequest& request, TokenKind token, Permit& permit) noexcept;
  SharedToken* owed(const TokenServer& server) noexcept;
  void owe(const TokenServer& server, std::uint8_t byte) noexcept;
  void owe_byte_of(SharedPermit& permit) noexcept;
  std::uint64_t grown_by(const SharedPermit& permit, const ProcessMemory& now) const noexcept;
  void learn(SharedPermit& permit, std::uint64_t grown, const ProcessMemory& now) noexcept;
  void saw_in_flight(std::uint64_t now_ns) noexcept;
  void saw_held_bytes(std::uint64_t now_ns) noexcept;
  void free_dead_riders(SharedPermit& permit) noexcept;
  ProcessName self() noexcept;

  SharedPermits* memory_ = nullptr;
  const Machine* machine_ = nullptr;
  ProcessName self_;
};

}  // namespace graphpool
