// Memory that is looked at stays as long as it is.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "shim/memory/device_memory.h"
#include "shim/verify/memory_look.h"

namespace graphpool {
namespace {

constexpr std::size_t kBytes = 1000;
constexpr std::chrono::milliseconds kShort{5};
constexpr std::chrono::seconds kLong{60};

/// Memory that the pool knows, and no more at its end.
char* known_memory() {
  static char* const memory = [] {
    const auto first = std::uintptr_t{0x7000'0000'0000};
    for (std::size_t i = 0; i < 3; ++i)
      blocks().note_native(reinterpret_cast<void*>(first + i * 4096), {.bytes = kBytes}, MemoryKind::kDevice);
    return reinterpret_cast<char*>(first);
  }();
  return memory;
}

/// A look of another thread, which ends when it is told to.
class Looking {
 public:
  explicit Looking(const std::vector<MemoryLook::Buffer>& buffers)
      : thread_([this, buffers] {
          MemoryLook look;
          std::unique_lock lock(mutex_);
          begun_ = look.begin(buffers);
          ready_ = true;
          changed_.notify_all();
          changed_.wait(lock, [this] { return over_; });
        }) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ready_; });
  }
  ~Looking() { end(); }
  void end() {
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  bool begun() const { return begun_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false, over_ = false, begun_ = false;
  std::thread thread_;  // the last: it uses the others
};

TEST(MemoryLook, memory_that_another_thread_looks_at_is_waited_for) {
  char* const memory = known_memory();
  Looking look({{memory, kBytes}});
  ASSERT_TRUE(look.begun());
  EXPECT_FALSE(MemoryLook::wait_for_others(memory, kBytes, kShort));
  EXPECT_FALSE(MemoryLook::wait_for_others(memory + kBytes - 1, 1, kShort));
  EXPECT_TRUE(MemoryLook::wait_for_others(memory + kBytes, 100, kLong));
  EXPECT_TRUE(MemoryLook::wait_for_others(memory + 4096, kBytes, kLong));
  bool over = false;
  std::thread waiting([&] { over = MemoryLook::wait_for_others(memory, kBytes, kLong); });
  look.end();
  waiting.join();
  EXPECT_TRUE(over);
}

TEST(MemoryLook, a_thread_does_not_wait_for_itself) {
  char* const memory = known_memory();
  MemoryLook look;
  ASSERT_TRUE(look.begin({{memory, kBytes}, {memory + 4096, kBytes}}));
  EXPECT_TRUE(MemoryLook::wait_for_others(memory, 2 * 4096, kLong));
}

TEST(MemoryLook, what_is_not_the_programs_is_not_looked_at) {
  char* const memory = known_memory();
  Block* const last = block_table().find(memory + 2 * 4096);
  ASSERT_NE(nullptr, last);
  for (const BlockState state : {BlockState::kLeaving, BlockState::kPending, BlockState::kKept}) {
    last->state.store(state);
    Looking look({{memory, kBytes}, {memory + 2 * 4096, kBytes}});
    EXPECT_FALSE(look.begun());
    EXPECT_TRUE(MemoryLook::wait_for_others(memory, kBytes, kShort)) << "neither is the rest";
  }
  last->state.store(BlockState::kLive);
  MemoryLook look;
  EXPECT_FALSE(look.begin({{memory, kBytes - 1}})) << "other memory is there";
  EXPECT_FALSE(look.begin({{memory + 8, kBytes - 8}}));
  EXPECT_FALSE(look.begin({{memory + 3 * 4096, kBytes}}));
  EXPECT_TRUE(look.begin({{memory, kBytes}, {memory + 2 * 4096, kBytes}}));
}

}  // namespace
}  // namespace graphpool
