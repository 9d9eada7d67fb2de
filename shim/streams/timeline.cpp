#include "shim/streams/timeline.h"

#include <algorithm>
#include <vector>

#include "shim/base/lock_rank.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"

namespace graphpool {

struct TimelineWord {
  std::atomic<std::uint64_t>* signal = nullptr;  ///< signal memory
  int device = 0;
  bool used = true;
  std::atomic<std::uint64_t> last{0};  ///< the newest value enqueued
  std::atomic<bool> lost{false};       ///< gone with a reset of its device

  bool reached() const noexcept {
    return lost.load(std::memory_order_acquire) ||
           signal->load(std::memory_order_acquire) >= last.load(std::memory_order_relaxed);
  }
};

namespace {

struct Words {
  RankedMutex<LockRank::kSlots> lock;
  std::vector<std::unique_ptr<TimelineWord>> all GUARDED_BY(lock);
};

Words& words() {
  static Words* const instance = new Words;
  return *instance;
}

}  // namespace

std::unique_ptr<Timeline> Timeline::make(int device) {
  Words& kept = words();
  {
    const LockGuard guard(kept.lock);
    for (const auto& word : kept.all) {
      if (word->used || word->device != device || !word->reached()) continue;
      word->used = true;
      return std::unique_ptr<Timeline>(new Timeline(word.get()));
    }
    kept.all.reserve(kept.all.size() + 1);
  }
  // All that needs host memory first: the word's memory would be lost.
  auto word = std::make_unique<TimelineWord>();
  auto made = std::unique_ptr<Timeline>(new Timeline(word.get()));
  void* memory = nullptr;
  {
    const PrivateCalls private_calls;
    const SavedDevice current(device);
    if (!current.ok() || !PrivateCalls::worked([&] {
          return next().hipExtMallocWithFlags(&memory, sizeof(std::uint64_t), hipMallocSignalMemory);
        }))
      return nullptr;
  }
  word->signal = static_cast<std::atomic<std::uint64_t>*>(memory);
  word->signal->store(0, std::memory_order_release);
  word->device = device;
  const LockGuard guard(kept.lock);
  kept.all.push_back(std::move(word));
  return made;
}

Timeline::~Timeline() {
  Words& kept = words();
  const LockGuard guard(kept.lock);
  word_->used = false;
  if (word_->lost) std::erase_if(kept.all, [&](const auto& word) { return word.get() == word_; });
}

bool Timeline::advance(hipStream_t stream) noexcept {
  const std::uint64_t value = word_->last.load(std::memory_order_relaxed) + 1;
  if (!PrivateCalls::worked([&] { return next().hipStreamWriteValue64(stream, word_->signal, value, 0); }))
    return false;
  word_->last.store(value, std::memory_order_relaxed);
  return true;
}

bool Timeline::reached() const noexcept { return word_->reached(); }

void timelines_device_reset(int device) noexcept {
  Words& kept = words();
  const LockGuard guard(kept.lock);
  for (const auto& word : kept.all)
    if (word->device == device) word->lost.store(true, std::memory_order_release);
  std::erase_if(kept.all, [&](const auto& word) { return word->lost && !word->used; });
}

std::size_t timeline_words() noexcept {
  Words& kept = words();
  const LockGuard guard(kept.lock);
  return static_cast<std::size_t>(
      std::count_if(kept.all.begin(), kept.all.end(), [](const auto& word) { return !word->lost; }));
}

}  // namespace graphpool
