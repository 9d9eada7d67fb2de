// operand_addresses.h: the addresses that the operations of a recording name, and the words that may be one.
//
// Threads: everything const. Units: bytes. Not here: what lies there.
#pragma once

#include <cstdint>
#include <span>

#include "shim/recording/operation_functions.h"

namespace graphpool {

/// Calls visit(place in the binding, address, whether the operation may write there) for every operand that is a device
/// address. `base`: where the payloads of these operations begin.
template <typename Visit>
void for_each_address(std::span<const Operation> operations, const Binding& binding, Visit&& visit,
                      std::uint32_t base) {
  for (const Operation& operation : operations)
    with_kind(operation.signature.kind,
              [&](auto kind) { kind.for_each_address(operation, binding, base + operation.payload_offset, visit); });
}
template <typename Visit>
void for_each_address(std::span<const Operation> operations, const Binding& binding, Visit&& visit) {
  for_each_address(operations, binding, visit, 0);
}

/// Calls visit(place in the binding, word) for every word of a kernel's arguments that may be an address, or not.
template <typename Visit>
void for_each_hidden_word(std::span<const Operation> operations, const Binding& binding, Visit&& visit,
                          std::uint32_t base) {
  for (const Operation& operation : operations)
    with_kind(operation.signature.kind, [&](auto kind) {
      kind.for_each_hidden_word(operation, binding, base + operation.payload_offset, visit);
    });
}
template <typename Visit>
void for_each_hidden_word(std::span<const Operation> operations, const Binding& binding, Visit&& visit) {
  for_each_hidden_word(operations, binding, visit, 0);
}

}  // namespace graphpool
