// fill_kind.h: has the functions for fills (kind_parts.h lists them).
#pragma once

#include <cstddef>

#include "shim/recording/kind_parts.h"

namespace graphpool {

struct FillKind : WithoutKernel {
  static const char* signature_difference(const Signature& own, const Signature& recorded) noexcept {
    return operand_difference(own, recorded);
  }
  static const char* why_not_staged(const Signature&) noexcept { return nullptr; }
  static hipError_t issue(const Signature& signature, std::uint32_t offset, const ArgumentLayout*,
                          const Binding& binding, hipStream_t stream);
  static hipError_t add(const Operation& operation, const Binding& binding, const NewNode& place);
  static hipError_t patch(const Operation& operation, const Binding& binding, hipGraphExec_t exec, hipGraphNode_t node);
  static bool has_type(int type) noexcept { return type == kMemsetType; }
  static const char* node_difference(const NodeQuestion& asked);

  template <typename Visit>
  static void for_each_address(const Operation&, const Binding& binding, std::uint32_t offset, Visit& visit) {
    visit(offset + static_cast<std::uint32_t>(offsetof(FillPayload, dst)), payload_at<FillPayload>(binding, offset).dst,
          true);
  }
  static void for_each_hidden_word(const Operation&, const Binding&, std::uint32_t, const auto&) noexcept {}
  static void for_each_moved(const Operation& operation, const Binding& before, const Binding& now, MovedVisit visit);
  static void note_judged(const Signature& signature, const Binding& binding, std::uint32_t offset, JudgedVisit visit);

  static bool has_classes() noexcept { return true; }
  static bool takes_host_memory() noexcept { return false; }
  /// True where a fill of rows would change its shape. `payload`: the new one, alone; `now`: the present binding.
  static bool may_refuse_set(const Operation& operation, const Binding& payload, const Binding& now) noexcept;

  static NodeClass node_class(const Signature& signature) noexcept {
    return is_plain(signature) ? NodeClass::kFill : NodeClass::kOther;
  }
  static bool is_seen_whole(const Operation&) noexcept { return true; }
};

}  // namespace graphpool
