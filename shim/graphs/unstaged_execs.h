// unstaged_execs.h: what a staged exec would be without staging, made before memory that it names is freed.
//
// Why: a staged exec works on slots, and gets an exec over the program's own memory only when the program does
// something with it that staging cannot follow. By then the memory may be freed, and HIP makes no copy or fill node
// over freed memory; natively the exec was made before. So it is made when the memory goes, like deferred graphs are
// made real (tracked_graphs.h). Kernel nodes hold addresses only and can be made at any time: a binding whose copies
// and fills do not name the memory costs nothing, and once it has been looked at a few times it is found by an index.
//
// Threads: any. Locks: each entry's own (kCapture), held while nodes are added, which neither waits nor calls back; the
// list's (kCaptureList), never held across next; neither is taken under the other. Errors: none; what cannot be made is
// not there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/base/lock_rank.h"
#include "shim/execs/recording.h"
#include "shim/graphs/memory_index.h"
#include "shim/recording/operation.h"

namespace graphpool {

/// One staged exec's. What is not said to be guarded otherwise is under its lock.
struct UnstagedExec {
  UnstagedExec(const Recording& from, int on) noexcept : recording(from), device(on) {}

  const Recording& recording;
  const int device;
  RankedMutex<LockRank::kCapture> lock;
  Binding binding;                         ///< the program's
  std::atomic<std::uint64_t> bindings{0};  ///< so far; read without the lock
  std::unique_ptr<Variant> made;
  bool gone = false;        ///< the exec is staged no more: the recording may be gone too
  std::uint32_t looks = 0;  ///< times this binding was looked at because memory was freed
  // Under the list's lock:
  std::size_t place = 0;      ///< in the list
  std::uint64_t indexed = 0;  ///< its number in the index
};

class UnstagedExecs {
 public:
  /// An exec is staged from now on, or has another binding (*entry is not null then).
  void bound(std::shared_ptr<UnstagedExec>* entry, const Recording& recording, int device, const Binding& binding);
  /// It is staged no more. What was made for its binding, or null. Nothing where *entry is null.
  std::unique_ptr<Variant> take(std::shared_ptr<UnstagedExec>* entry) noexcept;

  /// Memory is about to go back to the runtime (no bytes: as much as nobody knows; null: all there is).
  void memory_leaves(const void* address, std::size_t bytes);
  /// What such an operation names is about to go.
  void make_with(OperationTest test);

 private:
  using Entry = std::shared_ptr<UnstagedExec>;
  using Named = FunctionRef<bool(const UnstagedExec& entry)>;
  void make(const Entry& entry, Named named);
  /// Looks after which the index finds a binding.
  static constexpr std::uint32_t kLooks = 16;

  void exchange_places(std::size_t a, std::size_t b) noexcept;
  void watch(UnstagedExec& entry) noexcept;
  void stop_watching(UnstagedExec& entry, std::uint64_t bindings, const std::vector<std::uint64_t>& pages);
  std::vector<Entry> that_may_name(const void* address, std::size_t bytes);

  RankedMutex<LockRank::kCaptureList> lock_;
  /// First those that are not to be looked at when memory is freed, because an exec was made of them or they are in the
  /// index, then the others.
  std::vector<Entry> entries_;
  std::size_t unwatched_ = 0;
  MemoryIndex index_;  ///< its owners are the entries
};

}  // namespace graphpool
