// unstaged_execs.h: makes what a staged exec would be without staging, before memory that it names is freed. An exec
// that was given back to the runtime (exec_limit.h) counts as staged here, for it exists natively.
//
// Why: a staged exec works on slots, and gets an exec over the program's own memory only when the program does
// something with it that staging cannot follow. By then the memory may be freed, and HIP makes no copy or fill node
// over freed memory; natively the exec was made before. So it is made when the memory goes, like deferred graphs are
// made real (deferred_graphs.h). Kernel nodes hold addresses only and can be made at any time: a binding whose copies
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
#include "shim/graphs/memory_watch_list.h"
#include "shim/recording/operation.h"

namespace graphpool {

/// What is kept for one staged exec.
struct UnstagedExec : Watched {
  UnstagedExec(const Recording& made_of, int current_device) noexcept : recording(made_of), device(current_device) {}

  const Recording& recording;
  const int device;
  RankedMutex<LockRank::kCapture> lock;
  Binding binding GUARDED_BY(lock);        ///< the program's
  std::atomic<std::uint64_t> bindings{0};  ///< so far; changed under the lock
  std::unique_ptr<Variant> made GUARDED_BY(lock);
  bool ended GUARDED_BY(lock) = false;       ///< the exec is staged no more: the recording may be gone, too
  std::uint32_t looks GUARDED_BY(lock) = 0;  ///< times this binding was looked at because memory was freed
};

class UnstagedExecs {
 public:
  using Entry = std::shared_ptr<UnstagedExec>;

  /// Registers an exec that is staged from now on, or notes its other binding (then *entry is not null).
  void bound(Entry* entry, const Recording& recording, int device, const Binding& binding) EXCLUDES(lock_);
  /// Unregisters the exec: it is staged no more. Returns what was made for its binding, or null. Does nothing where
  /// *entry is null.
  std::unique_ptr<Variant> take(Entry* entry) noexcept EXCLUDES(lock_);

  /// Takes what was made for its binding, or null. The exec stays registered. Null where there is no entry.
  static std::unique_ptr<Variant> take_made(const Entry& entry) noexcept;

  /// Call it before memory goes back to the runtime (0 bytes: nobody knows how many; null: all there is).
  void before_memory_is_freed(const void* address, std::size_t bytes) EXCLUDES(lock_);
  /// Makes the execs with an operation for which the test is true. Call it before what these operations name goes.
  void make_with(OperationTest test) EXCLUDES(lock_);

 private:
  using Names = FunctionRef<bool(const UnstagedExec& entry)>;
  void make(const Entry& entry, Names names) EXCLUDES(lock_);
  std::vector<Entry> that_may_name(const void* address, std::size_t bytes) EXCLUDES(lock_);
  /// Lets the list not look at the entry: no free matters to this binding, or the index finds it by the pages.
  void stop_watching(UnstagedExec& entry, std::uint64_t bindings, const std::vector<std::uint64_t>* pages)
      EXCLUDES(lock_);

  RankedMutex<LockRank::kCaptureList> lock_;
  MemoryWatchList<UnstagedExec> list_ GUARDED_BY(lock_);
};

}  // namespace graphpool
