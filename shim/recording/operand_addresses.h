// operand_addresses.h: visits the addresses that operations name, and the words that may be an address.
//
// Threads: any; it only reads. Units: bytes. Not here: what lies at the addresses.
#pragma once

#include <cstdint>
#include <span>

#include "shim/recording/operation_functions.h"

namespace graphpool {

/// Calls visit(place in the binding, address, whether the operation may write there) for every operand that is an
/// address, of the device or of the host. `base`: where the payloads of these operations begin.
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

/// Calls visit(place in the binding, word) for every word of a kernel's arguments that is perhaps an address.
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
