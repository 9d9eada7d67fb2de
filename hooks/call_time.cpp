#include "hooks/call_time.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

#include "shim/base/guest_scope.h"
#include "shim/base/log.h"
#include "shim/hip/entry.h"
#include "shim/hip/lookup.h"
#include "shim/hip/next.h"

namespace graphpool {
namespace {

// The file, as call_times.py reads it.
struct Row {
  char name[64];
  std::atomic<std::uint64_t> calls, ns;
};
struct Table {
  char mark[16];
  std::uint64_t rows, clock_ps;
  Row row[kEntryCount];
};
static_assert(sizeof(Row) == 80 && offsetof(Table, row) == 32, "call_times.py has these numbers");
constexpr char kMark[] = "graphpool times";  // with its last zero
static_assert(sizeof kMark == sizeof Table{}.mark);

/// Has the counts where there is no file: no folder is named, or no file can be made there.
constinit Table g_no_file{};
/// Null until the first call.
constinit std::atomic<Table*> g_table{nullptr};
constinit thread_local int t_depth __attribute__((tls_model("initial-exec"))) = 0;

std::uint64_t now_ns() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

/// Measures what a reading of the clock adds to each call's time, in ps: by the fastest of several batches, which
/// nothing disturbed.
std::uint64_t clock_ps() noexcept {
  constexpr std::uint64_t kBatches = 20, kReadings = 50;
  std::uint64_t least = UINT64_MAX;
  for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
    const std::uint64_t began = now_ns();
    std::uint64_t ended = began;
    for (std::uint64_t i = 0; i < kReadings; ++i) ended = now_ns();
    least = std::min(least, ended - began);
  }
  return least * 1000 / kReadings;
}

void fill(Table* table) noexcept {
  std::memcpy(table->mark, kMark, sizeof kMark);
  table->rows = kEntryCount;
  table->clock_ps = clock_ps();
  for (std::size_t i = 0; i < kEntryCount; ++i) {
    const std::string_view name = entry_name(static_cast<EntryId>(i));
    std::memcpy(table->row[i].name, name.data(), std::min(name.size(), sizeof Row{}.name - 1));
  }
}

/// Makes and maps a new file in the folder. The file's name has a number, because the process may have made such a file
/// before an exec. Returns null if the file cannot be made or mapped; errno has the reason.
Table* map_file(const char* folder, char (&path)[PATH_MAX]) noexcept {
  constexpr int kMostFiles = 100;
  int file = -1;
  for (int number = 1; file < 0 && number <= kMostFiles; ++number) {
    std::snprintf(path, sizeof path, "%s/%d-%d.calls", folder, static_cast<int>(getpid()), number);
    file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 && errno != EEXIST) return nullptr;
  }
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (ftruncate(file, sizeof(Table)) == 0)
    memory = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Table*>(memory);
}

Table& open_table() noexcept {
  const GuestScope guest;
  const char* const folder = std::getenv("LIBGRAPHPOOL_CALL_TIMES");
  char path[PATH_MAX] = "";
  Table* mine = folder == nullptr || *folder == '\0' ? nullptr : map_file(folder, path);
  if (mine == nullptr && folder != nullptr) log_warn("no times of calls: %s: %s", folder, std::strerror(errno));
  if (mine != nullptr) fill(mine);
  // A forked child counts in a file of its own.
  static pthread_once_t watching_forks = PTHREAD_ONCE_INIT;
  pthread_once(&watching_forks, [] { pthread_atfork(nullptr, nullptr, [] { g_table.store(nullptr); }); });
  Table* first = nullptr;
  if (g_table.compare_exchange_strong(first, mine == nullptr ? &g_no_file : mine)) return *g_table.load();
  if (mine != nullptr) {  // another thread was faster
    munmap(mine, sizeof(Table));
    unlink(path);
  }
  return *first;
}

Table& table() noexcept {
  Table* const there = g_table.load(std::memory_order_acquire);
  return there != nullptr ? *there : open_table();
}

}  // namespace

CallTime::CallTime(EntryId id, void** looked_up) noexcept : id_(id), looked_up_(looked_up) {
  if (t_depth++ != 0) return;
  table();
  began_ns_ = now_ns();
  if (g_mode.load(std::memory_order_acquire) != Mode::kStarting) [[likely]]
    return;
  start();
  if (g_mode.load(std::memory_order_acquire) == Mode::kPassThrough) began_ns_ = now_ns();
}

CallTime::~CallTime() {
  --t_depth;
  if (began_ns_ == 0) return;
  Row& row = table().row[static_cast<std::size_t>(id_)];
  row.ns.fetch_add(now_ns() - began_ns_, std::memory_order_relaxed);
  row.calls.fetch_add(1, std::memory_order_relaxed);
  // Where the library is switched off, no body gives the program our functions. They are given here, so that calls of
  // functions that it has looked up are timed, too.
  if (looked_up_ == nullptr) return;
  if (void* const ours = *looked_up_ == nullptr ? nullptr : entry_for_next(*looked_up_)) *looked_up_ = ours;
}

}  // namespace graphpool
