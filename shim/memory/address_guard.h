// address_guard.h: an address of the program's as the runtime shall see it.
//
// Why: memory that the program has freed and the library keeps is allocated memory to the runtime, and a chunk is one
// allocation to it. What the program must not do there natively fails. So the runtime is asked about an address that
// gets the same error from it (never_address.h): one that it never handed out, or memory that is too small.
//
// Threads: any; no lock but near chunks, and none may be held: a question may make the memory that is too small. Where
// nothing is kept and there are no chunks each question costs two loads. Units: bytes.
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

  /// For queries and frees. The address changes where the program has freed the memory, or where it lies in a chunk and
  /// in no block.
  template <typename T>
  T* seen_by_hip(T* ptr) const noexcept {
    if (all_is_the_runtimes()) return ptr;
    const Block* const block = table_.find(ptr);
    return (block == nullptr ? chunks_.between_parts(ptr) : !block->live()) ? static_cast<T*>(refused()) : ptr;
  }

  /// For an operand of a copy or fill, of which so many bytes are touched. The address changes also where these bytes
  /// leave a part of a chunk, because the runtime sees no bounds inside a chunk. The new address begins at its base:
  /// offsets from it count no more.
  template <typename T>
  T* operand(T* ptr, std::size_t bytes) const noexcept {
    return all_is_the_runtimes() ? ptr : static_cast<T*>(checked(ptr, bytes));
  }
  /// For a value that a stream writes or waits for: the runtime refuses an address it does not know.
  template <typename T>
  T* value_operand(T* ptr, std::size_t bytes) const noexcept {
    return operand(ptr, bytes) == ptr ? ptr : static_cast<T*>(refused_value());
  }

  /// For calls that work on mappings: no block of ours is a mapping to the program.
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
