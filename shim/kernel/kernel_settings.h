// kernel_settings.h: what was last set of one kernel, and a number for each state that it had.
//
// Rule 38: attributes of a function are signature of that function's operations only. An operation names its kernel's
// state by the number: the same values have the same number again. Values that nobody knows (calls beside each other)
// have a number that never comes back.
//
// Bounded: so many states are remembered of a kernel; then all are forgotten, and numbers go on.
// Threads: guarded by its user (Functions). Throws std::bad_alloc, with nothing changed.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

namespace graphpool {

/// What is set of a function: an attribute of hipFuncAttribute, or a configuration that has a call of its own.
struct KernelSetting {
  static constexpr std::uint32_t kCacheConfig = 0x10000, kSharedMemoryConfig = 0x10001;

  std::uint32_t which = 0;
  int device = 0;

  auto operator<=>(const KernelSetting&) const = default;
};

class KernelSettings {
 public:
  static constexpr std::size_t kMostStates = 256;
  static constexpr std::uint64_t kMostNumbers = std::uint64_t{1} << 24;

  /// 0: nothing was ever set.
  std::uint64_t number() const noexcept { return number_; }
  bool has(KernelSetting setting, std::uint64_t value) const noexcept;
  /// `certain`: false where nobody knows whether the runtime has this value now. False: there is no number left.
  bool set(KernelSetting setting, std::uint64_t value, bool certain);

 private:
  struct Value {
    std::uint64_t value = 0;
    bool certain = true;

    auto operator<=>(const Value&) const = default;
  };
  using State = std::map<KernelSetting, Value>;

  State now_;
  std::map<State, std::uint64_t> numbers_;
  std::uint64_t number_ = 0, last_number_ = 0;
};

}  // namespace graphpool
