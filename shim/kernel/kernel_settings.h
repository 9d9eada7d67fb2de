// kernel_settings.h: knows what was last set of one kernel, and has a number for each state that it had.
//
// Rule 38: attributes of a function are part of the signature of that function's operations only. An operation names
// its kernel's state by the number: the same values have the same number again. If nobody knows the values (two threads
// set them at once), the number never comes back.
//
// Bounded: kMostStates are remembered of a kernel; then all are forgotten, and numbers go on.
// Threads: its user locks (Functions). set() throws std::bad_alloc; then the state is the same.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

namespace graphpool {

/// A setting of a function: an attribute of hipFuncAttribute, or a configuration that has a call of its own.
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

  /// The number of the present state; 0: nothing was ever set.
  std::uint64_t number() const noexcept { return number_; }
  bool has(KernelSetting setting, std::uint64_t value) const noexcept;
  /// Notes what was set. `certain`: the runtime is known to have this value now. Returns false if no number is left.
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
