// arena.cpp: see arena.h.
#include "arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <vector>

#include "api.h"

namespace cpuhip {
namespace {

/// A stretch of reserved addresses, mapped one to one from a file that has memory only where it is in use.
struct Window {
  char* base = nullptr;
  std::size_t bytes = 0, used = 0;
  int file = -1;
};

struct FreeRange {
  Range range;
  std::uint64_t number;  ///< counts the ranges freed
};

class Arena {
 public:
  bool take(std::size_t bytes, Range* range) {
    const std::size_t whole = pages_up(std::max<std::size_t>(bytes, 1)) + kPageBytes;
    const std::lock_guard lock(mutex_);
    return reuse(whole, range) || cut(whole, range);
  }

  void give(const Range& range) {
    const std::lock_guard lock(mutex_);
    free_[range.bytes].push_back({range, ++freed_});
  }

  bool owns(const void* address) {
    const std::lock_guard lock(mutex_);
    return std::any_of(windows_.begin(), windows_.end(), [&](const Window& window) {
      const auto* place = static_cast<const char*>(address);
      return place >= window.base && place < window.base + window.bytes;
    });
  }

 private:
  bool reuse(std::size_t whole, Range* range) {
    constexpr std::uint64_t kLate = 64;
    const auto found = free_.find(whole);
    if (found == free_.end() || found->second.empty()) return false;
    std::deque<FreeRange>& ranges = found->second;
    std::size_t index = 0;
    switch (config().reuse) {
      case Reuse::Never:
        return false;
      case Reuse::Late:
        if (ranges.front().number + kLate > freed_) return false;
        break;
      case Reuse::Once:
        index = ranges.size() - 1;
        break;
      case Reuse::Random:
        index = random_() % (ranges.size() + 1);
        if (index == ranges.size()) return false;
        break;
    }
    *range = ranges[index].range;
    ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(index));
    return true;
  }

  bool cut(std::size_t whole, Range* range) {
    if (windows_.empty() || windows_.back().bytes - windows_.back().used < whole) {
      if (!open_window(whole)) return false;
    }
    Window& window = windows_.back();
    *range = {window.base + window.used, whole, window.file, static_cast<off_t>(window.used)};
    window.used += whole;
    return true;
  }

  bool open_window(std::size_t at_least) {
    // Address space is plentiful unless the process is limited; then no more is taken than needed.
    rlimit limit;
    const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    Window window;
    window.bytes = std::max(pages_up(at_least), std::size_t{1} << (limited ? 26 : 36));
    window.file = memfd_create("cpuhip", MFD_CLOEXEC);
    if (window.file < 0) return false;
    if (ftruncate(window.file, static_cast<off_t>(window.bytes)) != 0) {
      close(window.file);
      return false;
    }
    void* base = mmap(nullptr, window.bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, window.file, 0);
    if (base == MAP_FAILED) {
      close(window.file);
      return false;
    }
    window.base = static_cast<char*>(base);
    windows_.push_back(window);
    return true;
  }

  std::mutex mutex_;
  std::vector<Window> windows_;
  std::map<std::size_t, std::deque<FreeRange>> free_;  ///< by size
  std::uint64_t freed_ = 0;
  std::minstd_rand random_;
};

Arena& arena() {
  static auto& instance = *new Arena;
  return instance;
}

}  // namespace

bool arena_take_memory(std::size_t bytes, Range* range) { return arena().take(bytes, range); }

bool arena_take(std::size_t bytes, Range* range) {
  if (!arena().take(bytes, range)) return false;
  if (mprotect(range->address, range->bytes - kPageBytes, PROT_READ | PROT_WRITE) != 0) {
    arena().give(*range);
    return false;
  }
  poison(range->address, range->bytes - kPageBytes);
  return true;
}

void arena_give(const Range& range) {
  fallocate(range.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, range.offset, static_cast<off_t>(range.bytes));
  if (mprotect(range.address, range.bytes, PROT_NONE) != 0) fatal("cannot protect freed memory");
  arena().give(range);
}

void arena_restore(const Range& range) {
  void* restored =
      mmap(range.address, range.bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, range.file, range.offset);
  if (restored == MAP_FAILED) fatal("cannot undo a mapping");
}

bool arena_owns(const void* address) { return arena().owns(address); }

void poison(void* address, std::size_t bytes) {
  constexpr std::size_t kWhole = std::size_t{64} << 20, kEnd = std::size_t{1} << 20;
  constexpr int kFresh = 0xCD;
  if (!config().poison) return;
  if (bytes <= kWhole) {
    std::memset(address, kFresh, bytes);
  } else {
    std::memset(address, kFresh, kEnd);
    std::memset(static_cast<char*>(address) + bytes - kEnd, kFresh, kEnd);
  }
}

}  // namespace cpuhip
