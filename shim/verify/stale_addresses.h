// stale_addresses.h: finds graphs that name memory which is not what it was (`graph.check`).
//
// A graph keeps the addresses it was captured with. Where the program frees such memory and launches the graph all the
// same, the graph works on nothing, or on somebody else's memory; often nobody notices. When an exec gets its
// addresses, it is noted which allocation each of them lies in (allocations_of()); before each launch that is asked
// again (look()). StaleKind says what is told. Words in arguments that are structures or of unknown kind are looked at,
// too, but only told where they lie in memory that is or was the program's: one that is no address and looks like one
// is told as if it were.
//
// Not told: null, and the address right behind an allocation, which may be an end, where no other memory was; other
// devices' memory that copies and fills name, to which peer access was enabled once, or that is managed or of a memory
// pool; what is no device memory where it is mapped in the process (an operand of a copy may be any host memory). Not
// seen: memory that was freed and handed out again between a capture and its instantiation; what kernels find by
// addresses in memory; execs that are the runtime's own by now. Threads: any. Lock: kReport, for look-ups; never held
// while call sites are unwound, HIP is called or something is logged. Bounded: kMostRanges freed and mapped ranges
// each, those at the lowest addresses go first; kMostFound findings. Cost: if `graph.check` is on, a look-up for each
// address and launch; else none.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "shim/base/lock_rank.h"
#include "shim/execs/recording.h"
#include "shim/recording/operation.h"

namespace graphpool {

enum class StaleKind : std::uint8_t {
  kFreed,        ///< its memory was freed
  kReused,       ///< and another allocation is there now
  kUnmapped,     ///< its memory was unmapped
  kOtherDevice,  ///< it is another device's memory than the kernel's
  kBeyond,       ///< it lies beyond the end of an allocation
  kNowhere,      ///< there is no memory
};
/// The word that the report has for it.
const char* word_of(StaleKind kind) noexcept;

struct StaleAddress {
  std::uint64_t graph = 0;
  std::uint32_t operation = 0;   ///< its index; the first is the beginning of the capture
  const char* what = nullptr;    ///< the operation's kind
  const char* kernel = nullptr;  ///< null: none, or not known
  std::uint32_t argument = 0;    ///< of a kernel; else the number of the address in the operation
  bool hidden = false;           ///< a word that may be no address (for_each_value_word())
  StaleKind kind = StaleKind::kFreed;
  std::uint32_t allocated_by = 0, freed_by = 0;  ///< call sites; 0: not known, or not freed
  std::uint64_t address = 0;                     ///< where it was found first
  std::uint64_t launch = 0;                      ///< number of the last launch that it was found in
  std::uint64_t times = 1;                       ///< launches

  bool same(const StaleAddress& other) const noexcept {
    return graph == other.graph && operation == other.operation && argument == other.argument &&
           hidden == other.hidden && kind == other.kind && allocated_by == other.allocated_by &&
           freed_by == other.freed_by;
  }
};

class StaleAddresses {
 public:
  static constexpr std::size_t kMostRanges = std::size_t{1} << 16;
  static constexpr std::size_t kMostFound = 256;
  /// How far behind an allocation an address is said to be beyond it.
  static constexpr std::size_t kNear = std::size_t{1} << 20;
  /// The allocation (Block::order) that each address of a binding lies in, in the order of the operations; 0: none.
  using Allocations = std::vector<std::uint64_t>;

  /// Call it before a free: the program's memory there may be gone from now on.
  void memory_leaves(const void* address) noexcept;
  /// Notes that the program has mapped or unmapped memory itself.
  void mapped(const void* base, std::size_t bytes) noexcept;
  void unmapped(const void* base, std::size_t bytes) noexcept;
  /// Notes that kernels of the device may use the peer's memory from now on; peer < 0, or more than are kept:
  /// anybody's.
  void peer_enabled(int device, int peer) noexcept;

  static Allocations allocations_of(const std::vector<Operation>& operations, const Binding& binding);
  /// The allocations after only one operation has got its addresses anew. None if `before` has none, because there was
  /// no memory for it: what other operations named then is not known.
  static Allocations with_operation(const std::vector<Operation>& operations, const Binding& binding,
                                    std::uint32_t index, Allocations before);

  /// Call it before a launch. Only note() knows whether kBeyond and kNowhere are so. Throws std::bad_alloc.
  std::vector<StaleAddress> look(const Recording& recording, const Binding& binding, const Allocations& named);
  /// Asks the runtime where needed, and keeps what is so. True: it was not found before, and there was room for it.
  /// Call it without a lock held.
  bool note(const StaleAddress& stale);

  std::uint64_t launches() const noexcept { return launches_.load(std::memory_order_relaxed); }
  std::vector<StaleAddress> found() const;

 private:
  struct Range {
    std::uintptr_t end;
    std::uint64_t order;  ///< 0: mapped by the program
    std::uint32_t allocated_by, freed_by;
  };
  using Ranges = std::map<std::uintptr_t, Range>;  ///< by the first address; none overlap

  static void take_out(Ranges* ranges, std::uintptr_t base, std::uintptr_t end);
  static void put_in(Ranges* ranges, std::uintptr_t base, const Range& range);
  static bool find(const Ranges& ranges, std::uintptr_t address, Range* range);
  bool is_peer(int device, int other) const noexcept;
  bool judge(const Operation& operation, std::uint64_t address, bool hidden, std::uint64_t before,
             StaleAddress* stale) const;

  std::atomic<std::uint64_t> launches_{0};
  std::array<std::atomic<std::uint64_t>, 64> peers_{};  ///< by device: a bit for each whose memory it may use
  mutable RankedMutex<LockRank::kReport> lock_;
  Ranges freed_ GUARDED_BY(lock_), mapped_ GUARDED_BY(lock_);
  std::vector<StaleAddress> found_ GUARDED_BY(lock_);
};

/// Called after each warning: the launch that follows may end the process, and with it what was found. Set by the
/// report; null: nobody wants to know.
inline constinit std::atomic<void (*)() noexcept> g_stale_found{nullptr};

/// Logs a warning, then calls g_stale_found. Call it without a lock held.
void say_stale(const StaleAddress& stale);

/// The process's. Never destroyed.
StaleAddresses& stale_addresses() noexcept;

}  // namespace graphpool
