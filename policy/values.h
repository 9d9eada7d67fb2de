// values.h: the types of the policy's values. The unit is in the type's field names. How they are written: readers.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace graphpool {

struct Bytes {
  std::uint64_t bytes = 0;
  bool operator==(const Bytes&) const = default;
};

/// A number of bytes, or of per cent of a total that is known only at run time.
struct Share {
  std::uint64_t bytes = 0;
  std::uint32_t percent = 0;  ///< when is_percent
  bool is_percent = false;

  [[nodiscard]] constexpr std::uint64_t resolve(std::uint64_t total_bytes) const noexcept {
    if (!is_percent) return bytes < total_bytes ? bytes : total_bytes;
    return total_bytes / 100 * percent + total_bytes % 100 * percent / 100;
  }
  bool operator==(const Share&) const = default;
};

/// All numbers from `first` to `last`, both included.
struct Span {
  std::uint64_t first = 0;
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max();

  [[nodiscard]] constexpr bool contains(std::uint64_t value) const noexcept { return first <= value && value <= last; }
  [[nodiscard]] constexpr bool is_everything() const noexcept { return *this == Span{}; }
  bool operator==(const Span&) const = default;
};

struct WrittenRange {
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;  ///< 0: to the end of the allocation
  bool operator==(const WrittenRange&) const = default;
};

/// Which captures and launches of a recording also take the real path and are compared.
struct Verify {
  enum class Mode { kOff, kFirst, kEvery };
  Mode mode = Mode::kOff;
  std::uint32_t count = 0;  ///< kFirst: the first so many; kEvery: one in so many

  /// index: how many there were before, by the caller's count.
  [[nodiscard]] constexpr bool wants(std::uint64_t index) const noexcept {
    return mode == Mode::kFirst ? index < count : mode == Mode::kEvery && index % count == 0;
  }
  bool operator==(const Verify&) const = default;
};

struct PermitLimit {
  std::uint32_t count = 0;  ///< 0: worked out at run time
  [[nodiscard]] constexpr bool is_auto() const noexcept { return count == 0; }
  bool operator==(const PermitLimit&) const = default;
};

enum class Backing { kAuto, kClassic, kVmm };
enum class FreeMode { kSync, kDeferred };
enum class Stage { kNever, kAuto, kAlways };
enum class Strategy { kAuto, kNewExec, kPatch, kOneShot };
enum class Unknown { kOff, kTrust };
enum class Scope { kProcess, kUser, kNode };
enum class Jobserver { kOff, kHonour, kOffer };
enum class LogLevel {
  kOff,
  kError,
  kWarn,
  kInfo,
  kDebug,
  kTrace
};  ///< rising: a message shows if its level <= that of the key `log.level`
enum class Action { kPool, kPass };
enum class Role { kInOut, kIn, kOut, kTemp };

}  // namespace graphpool
