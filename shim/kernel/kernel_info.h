// kernel_info.h: has what is known of a host stub or a function handle, and packs it for a PointerTable.
#pragma once

#include <cstdint>

#include "shim/base/pointer_table.h"
#include "shim/kernel/argument_layout.h"
#include "shim/kernel/kernel_settings.h"

namespace graphpool {

/// What is known of a host stub or a function handle. The pointers stay valid for ever.
struct KernelInfo {
  const ArgumentLayout* layout = nullptr;  ///< null: unknown
  const char* name = nullptr;              ///< as in the code object; null: not kept
  std::uint64_t generation = 0;            ///< of this registration, and of what is set of its kernel (rule 38); 0:
                                           ///< nobody registered this address
  bool may_be_asked = false;               ///< the layout is unknown, and the runtime has not been asked for it

  bool registered() const noexcept { return generation != 0; }
};

/// These stand in place of a layout's address: kUnreadLayout until the stub's binary has been read, kUnaskedLayout
/// until the runtime has been asked. Layouts are aligned, so none has these addresses.
inline constexpr std::uint64_t kUnreadLayout = 1, kUnaskedLayout = 2;
static_assert(alignof(ArgumentLayout) > kUnaskedLayout);

/// A generation has the registration's number, and above these bits the number of what is set of the kernel.
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
