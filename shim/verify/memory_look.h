// memory_look.h: keeps memory that `verify` looks at from going back to the runtime meanwhile.
//
// Why: a launch that is compared reads what its graph names, and also what its exec named before it was patched. That
// memory may be anybody's by now, and the program may free it at any time: then the copies would fault, or bytes that
// somebody else has there next would be taken for the graph's work.
// Threads: any; a look belongs to the thread that began it. Lock: kSlots, for a few instructions. Not here: memory that
// is kept or handed out again, which stays mapped.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace graphpool {

class MemoryLook {
 public:
  MemoryLook() = default;
  ~MemoryLook() { end(); }
  MemoryLook(const MemoryLook&) = delete;
  MemoryLook& operator=(const MemoryLook&) = delete;

  struct Buffer {
    const char* base;
    std::size_t bytes;
  };
  /// Begins a look at blocks of the pool. False: one of them is not the program's any more, or is being freed; then
  /// there is no look. Throws std::bad_alloc.
  bool begin(const std::vector<Buffer>& buffers);
  void end() noexcept;

  /// Call it before memory goes: waits until no other thread looks at any of it, but no longer than `limit`. Returns
  /// whether none looks at it then.
  static bool wait_for_others(const void* address, std::size_t bytes, std::chrono::nanoseconds limit) noexcept;

 private:
  bool looking_ = false;
};

}  // namespace graphpool
