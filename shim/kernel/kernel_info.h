// kernel_info.h: what is known of a host stub or a function handle, and how a PointerTable holds it.
#pragma once

#include <cstdint>

#include "shim/base/pointer_table.h"
#include "shim/kernel/argument_layout.h"
#include "shim/kernel/kernel_settings.h"

namespace graphpool {

/// What is known of a host stub or a function handle. The pointers are good for ever.
struct KernelInfo {
  const ArgumentLayout* layout = nullptr;  ///< null: unknown
  const char* name = nullptr;              ///< as in the code object; null: not kept
  std::uint64_t generation = 0;            ///< of this registration, and of what is set of its kernel (rule 38); 0:
                                           ///< nobody registered this address
  bool may_be_asked = false;               ///< the layout is unknown, and the runtime has not been asked for it

  bool registered() const noexcept { return generation != 0; }
};

/// In place of a layout's address: the stub's binary has not been read; the runtime has not been asked. Layouts are
/// aligned.
inline constexpr std::uint64_t kUnreadLayout = 1, kUnaskedLayout = 2;
static_assert(alignof(ArgumentLayout) > kUnaskedLayout);

/// A generation: that of the registration, and above it the number of what is set of the kernel.
inline constexpr int kSettingsShift = 40;
static_assert(KernelSettings::kMostNumbers <= std::uint64_t{1} << (64 - kSettingsShift));
inline constexpr std::uint64_t kRegistrationMask = (std::uint64_t{1} << kSettingsShift) - 1;

inline PointerTable::Value pack(const KernelInfo& info) noexcept {
  const auto layout = reinterpret_cast<std::uint64_t>(info.layout);
  return {info.may_be_asked ? kUnaskedLayout : layout, reinterpret_cast<std::uint64_t>(info.name), info.generation};
}

inline KernelInfo unpack(const PointerTable::Value& value) noexcept {
  const bool known = value[0] > kUnaskedLayout;
  return {known ? reinterpret_cast<const ArgumentLayout*>(value[0]) : nullptr, reinterpret_cast<const char*>(value[1]),
          value[2], value[0] == kUnaskedLayout};
}

}  // namespace graphpool
