// permit.h: a permit as its holder knows it, and a request for one. What the table keeps of it: permit_slots.h.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "shim/compile/machine.h"
#include "shim/compile/permit_tokens.h"

namespace graphpool {

class PermitTable;
class RelocatedMemory;

inline constexpr std::uint32_t kMostPermits = 128;
inline constexpr std::uint32_t kMostRiders = 12;

/// Who takes a permit, and for how long.
enum class HolderKind : std::uint32_t {
  kProcess,     ///< a compiler process, for its life
  kCall,        ///< a call that compiles, until it returns
  kPoolThread,  ///< a pool's thread (pool_threads.h), until it waits for work with a permit older than kShortSleep
};

/// How a wait may end before a permit is given.
enum class GoesOn : std::uint8_t { kNo, kOverTheLimit, kRiding };

struct PermitRequest {
  std::string_view size_class;
  std::uint64_t input_bytes = 0;
  HolderKind kind = HolderKind::kProcess;
  std::uint64_t since_ns = 0;     ///< when the wait began
  std::uint64_t starting_ns = 0;  ///< of a process: how long it took from its fork until it asked
  ProcessMemory before = {};      ///< its process's memory, read anew while it waits
  TokenServer server = {};        ///< if it exists, a token of it is needed too
  ProcessName job = {};
  GoesOn (*goes_on)(PermitTable& table) = nullptr;  ///< asked now and then
  std::optional<std::uint8_t> byte = {};            ///< a byte of the server that was read for it
  RelocatedMemory* relocated = nullptr;             ///< its drop() is called where memory is short; null: none
};

/// A permit, or a ride on one.
struct Permit {
  std::uint32_t index = kMostPermits;
  std::uint32_t generation = 0;
  std::uint32_t rider = kMostRiders;      ///< its place among the riders, when riding
  pid_t process = 0;                      ///< a forked child holds nothing
  std::optional<std::uint8_t> byte = {};  ///< of a jobserver: it has to be given back
  [[nodiscard]] bool held() const noexcept { return index < kMostPermits; }
  [[nodiscard]] bool riding() const noexcept { return rider < kMostRiders; }
};

}  // namespace graphpool
