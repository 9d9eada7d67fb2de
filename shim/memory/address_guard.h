// address_guard.h: turns an address of the program's into the one that the runtime shall see.
//
// Why: memory that the program has freed and the library keeps is allocated memory to the runtime, and a chunk is one
// allocation to it. Natively a call fails that uses it in a way the program must not. So the runtime gets an address
// that leads to the same error (never_address.h): one that it never handed out, or memory that is too small.
//
// Threads: any; a lock only for addresses near chunks. The caller holds none, because a question may make the memory
// that is too small. If nothing is kept and chunks have no parts, a question costs two loads. Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/memory/block_table.h"
#include "shim/memory/chunk_store.h"
#include "shim/memory/kept_memory.h"

namespace graphpool {

class AddressGuard {
 public:
  constexpr AddressGuard(const BlockTable& table, const KeptMemory& kept, const ChunkStore& chunks) noexcept
      : table_(table), kept_(kept), chunks_(chunks) {}
  AddressGuard(const AddressGuard&) = delete;
  AddressGuard& operator=(const AddressGuard&) = delete;

  /// For queries and frees. The address changes if the program has freed its memory, or if it is in a chunk and no
  /// block.
  template <typename T>
  T* seen_by_hip(T* ptr) const noexcept {
    if (all_is_the_runtimes()) return ptr;
    const Block* const block = table_.find(ptr);
    return (block == nullptr ? chunks_.between_parts(ptr) : !block->live()) ? static_cast<T*>(refused()) : ptr;
  }

  /// For an operand of a copy or fill that touches `bytes` from there on. The address changes also if these bytes leave
  /// a part of a chunk, because the runtime sees no bounds inside a chunk. The new address is the beginning of other
  /// memory: the caller drops offsets into the old one.
  template <typename T>
  T* operand(T* ptr, std::size_t bytes) const noexcept {
    return all_is_the_runtimes() ? ptr : static_cast<T*>(checked(ptr, bytes));
  }
  /// For a value that a stream writes or waits for: the runtime refuses an address that it does not know.
  template <typename T>
  T* value_operand(T* ptr, std::size_t bytes) const noexcept {
    return operand(ptr, bytes) == ptr ? ptr : static_cast<T*>(refused_value());
  }

  /// For calls that work on mappings: no freed memory and no part of a chunk is a mapping of the program's.
  void* outside_chunks(void* ptr) const noexcept {
    if (all_is_the_runtimes()) return ptr;
    const Block* const block = table_.find(ptr);
    const bool ours =
        block == nullptr ? chunks_.between_parts(ptr) : !block->live() || block->backing == BlockBacking::kVmm;
    return ours ? refused() : ptr;
  }

  /// An address that the runtime refuses.
  static void* refused() noexcept;

 private:
  bool all_is_the_runtimes() const noexcept { return !kept_.any() && !chunks_.any_parts(); }
  void* checked(const void* ptr, std::size_t bytes) const noexcept;
  static void* refused_value() noexcept;

  const BlockTable& table_;
  const KeptMemory& kept_;
  const ChunkStore& chunks_;
};

}  // namespace graphpool
