// copy_kinds.h: has the functions for copies of a row, of rows with a pitch and of a box (kind_parts.h lists them).
#pragma once

#include <cstddef>

#include "shim/recording/kind_parts.h"

namespace graphpool {

/// What copies have in common.
struct AnyCopy : WithoutKernel, TakesEveryPayload {
  static const char* signature_difference(const Signature& own, const Signature& recorded) noexcept {
    return operand_difference(own, recorded);
  }
  static const char* why_not_staged(const Signature&) noexcept { return nullptr; }
  static bool has_type(int type) noexcept { return type == kMemcpyType; }
  /// Asks nothing: hipGraphMemcpyNodeGetParams of HIP 5 reads beyond the end of a plain copy's node.
  static const char* node_difference(const NodeQuestion&) noexcept { return nullptr; }
  static void for_each_hidden_word(const Operation&, const Binding&, std::uint32_t, const auto&) noexcept {}
  static bool has_classes() noexcept { return true; }
  static bool takes_host_memory() noexcept { return true; }
  static bool is_seen_whole(const Operation&) noexcept { return true; }
};

/// One or more rows: a CopyPayload.
struct RowsCopy : AnyCopy {
  template <typename Visit>
  static void for_each_address(const Operation&, const Binding& binding, std::uint32_t offset, Visit& visit) {
    const auto& copy = payload_at<CopyPayload>(binding, offset);
    visit(offset + static_cast<std::uint32_t>(offsetof(CopyPayload, dst)), copy.dst, true);
    visit(offset + static_cast<std::uint32_t>(offsetof(CopyPayload, src)), copy.src, false);
  }
  static void for_each_moved(const Operation& operation, const Binding& before, const Binding& now, MovedVisit visit);
  static void note_judged(const Signature& signature, const Binding& binding, std::uint32_t offset, JudgedVisit visit);
};

/// One row of bytes.
struct CopyKind : RowsCopy {
  static hipError_t issue(const Signature& signature, std::uint32_t offset, const ArgumentLayout*,
                          const Binding& binding, hipStream_t stream);
  static hipError_t add(const Operation& operation, const Binding& binding, const NewNode& place);
  static hipError_t patch(const Operation& operation, const Binding& binding, hipGraphExec_t exec, hipGraphNode_t node);
  /// Plain copies have a type of their own in versions where the type of kernels is 1.
  static bool has_type(int type) noexcept { return type == kMemcpyType || type > kEmptyType; }
  static NodeClass node_class(const Signature& signature) noexcept;
};

/// Rows with a pitch.
struct PitchedCopyKind : RowsCopy, NeverPatched {
  static hipError_t issue(const Signature& signature, std::uint32_t offset, const ArgumentLayout*,
                          const Binding& binding, hipStream_t stream);
  static hipError_t add(const Operation& operation, const Binding& binding, const NewNode& place);
  static hipError_t patch(const Operation& operation, const Binding& binding, hipGraphExec_t exec, hipGraphNode_t node);
};

/// A box: a Copy3DPayload.
struct BoxCopyKind : AnyCopy, NeverPatched, AddedOnly {
  static hipError_t add(const Operation& operation, const Binding& binding, const NewNode& place);
  static hipError_t patch(const Operation& operation, const Binding& binding, hipGraphExec_t exec, hipGraphNode_t node);

  template <typename Visit>
  static void for_each_address(const Operation&, const Binding& binding, std::uint32_t offset, Visit& visit) {
    const hipMemcpy3DParms& params = payload_at<Copy3DPayload>(binding, offset).params;
    const auto visit_pointer = [&](std::size_t place, const hipPitchedPtr& operand, bool written) {
      visit(offset + static_cast<std::uint32_t>(place + offsetof(hipPitchedPtr, ptr)),
            reinterpret_cast<std::uint64_t>(operand.ptr), written);
    };
    visit_pointer(offsetof(hipMemcpy3DParms, dstPtr), params.dstPtr, true);
    visit_pointer(offsetof(hipMemcpy3DParms, srcPtr), params.srcPtr, false);
  }
  static void for_each_moved(const Operation& operation, const Binding& before, const Binding& now, MovedVisit visit);
  static void note_judged(const Signature& signature, const Binding& binding, std::uint32_t offset, JudgedVisit visit);
};

}  // namespace graphpool
