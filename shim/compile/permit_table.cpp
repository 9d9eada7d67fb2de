#include "shim/compile/permit_table.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace graphpool {
namespace {

/// Under the lock: sets what others read without it.
template <typename Word>
void publish(Word* word, Word value) noexcept {
  __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kLookEvery = kSecond / 20, kCheckEvery = kSecond / 4;
/// After memory was found too little it is not read again for so long, unless a permit comes back.
constexpr std::uint64_t kRefusedFor = kSecond / 200;
/// A waiter this much older goes first, while it was seen this recently.
constexpr std::uint64_t kElderLead = 10 * kSecond, kElderSeen = kSecond;
/// So many processes may be starting while the last one came no longer ago than several times what this one took to
/// start.
constexpr std::uint64_t kNewcomers = 16, kStarts = 4, kLeastStart = kSecond / 40, kMostStart = kSecond / 2;
/// Before the first of its class runs alone, a process waits this long for smaller ones of the same burst; one that
/// waits is remembered for so long: it asks again sooner.
constexpr std::uint64_t kMostBurst = kSecond / 10, kSmallestSeen = kSecond / 2;
/// Less of a processor than this is not moving: a progress bar is no compilation.
constexpr std::uint64_t kMovingPercent = 10;
constexpr std::uint64_t kTick = kSecond / 100;  // USER_HZ

void make_mutex(pthread_mutex_t& mutex, bool shared) noexcept {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  if (shared) pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

/// what(index) of each permit that is held, under the lock.
template <typename What>
void for_each_held(const SharedPermits& memory, What what) noexcept {
  for (std::uint32_t word = 0; word < kMostPermits / 64; ++word)
    for (std::uint64_t bits = memory.held[word]; bits != 0; bits &= bits - 1)
      what(word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
}

/// Whether the mutex could be had: its owner, if it had one, is gone. It is unlocked again.
bool is_free(pthread_mutex_t& mutex) noexcept {
  const int result = pthread_mutex_trylock(&mutex);
  if (result == EOWNERDEAD) pthread_mutex_consistent(&mutex);
  if (result != 0 && result != EOWNERDEAD) return false;
  pthread_mutex_unlock(&mutex);
  return true;
}

/// What `bytes` for one input make for another.
std::uint64_t in_proportion(std::uint64_t bytes, std::uint64_t input_bytes, std::uint64_t other_bytes) noexcept {
  const auto input = static_cast<double>(std::max(input_bytes, kLeastInputBytes));
  const double result =
      static_cast<double>(bytes) * (static_cast<double>(std::max(other_bytes, kLeastInputBytes)) / input);
  constexpr double kMost = 1e18;
  return static_cast<std::uint64_t>(std::min(result, kMost));
}

/// The step of a figure: up to 15 each has its own, then eight between a power of two and the next.
constexpr std::uint32_t step_of(std::uint64_t figure) noexcept {
  const auto shift = static_cast<std::uint32_t>(std::max(0, 60 - std::countl_zero(figure)));
  return 8 * shift + static_cast<std::uint32_t>(figure >> shift);
}
static_assert(step_of(~std::uint64_t{0}) + 1 == SharedFigures::kSteps);

void saw(SharedFigures& of, std::uint64_t figure, std::uint64_t now_ns) noexcept {
  const std::uint32_t step = step_of(figure);
  publish(&of.figures[step], figure);
  publish(&of.seen_ns[step], now_ns);
}

bool seen_since(const std::uint64_t& seen_ns, std::uint64_t since_ns) noexcept {
  const std::uint64_t seen = __atomic_load_n(&seen_ns, __ATOMIC_RELAXED);
  return seen != 0 && seen >= since_ns;
}

}  // namespace

void make_permits(SharedPermits& memory, bool shared) noexcept {
  make_mutex(memory.lock, shared);
  for (SharedPermit& permit : memory.permits) make_mutex(permit.owner, shared);
  __atomic_store_n(&memory.ready, kReady, __ATOMIC_RELEASE);
}

/// The table's lock. Not had within a second (a process stopped inside): the table is not used this time.
class PermitTable::Lock {
 public:
  explicit Lock(const PermitTable& table) noexcept {
    if (table.memory_ == nullptr || __atomic_load_n(&table.memory_->ready, __ATOMIC_ACQUIRE) != kReady) return;
    mutex_ = &table.memory_->lock;
    int result = pthread_mutex_trylock(mutex_);
    if (result == EBUSY) {
      timespec until{};
      clock_gettime(CLOCK_REALTIME, &until);
      ++until.tv_sec;
      result = pthread_mutex_timedlock(mutex_, &until);
    }
    // Whoever died inside left every permit in a state that free_the_dead() understands.
    if (result == EOWNERDEAD) result = pthread_mutex_consistent(mutex_);
    if (result != 0) mutex_ = nullptr;
  }
  ~Lock() {
    if (mutex_ != nullptr) pthread_mutex_unlock(mutex_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  explicit operator bool() const noexcept { return mutex_ != nullptr; }

 private:
  pthread_mutex_t* mutex_ = nullptr;
};

ProcessName PermitTable::self() noexcept {
  const pid_t process = machine_->process();
  if (self_.process != process) self_ = process_name(*machine_, process);
  return self_;
}

bool PermitTable::held(std::uint32_t index) const noexcept {
  return (memory_->held[index / 64] >> index % 64 & 1) != 0;
}

void PermitTable::set_held(std::uint32_t index, bool value) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << index % 64;
  memory_->held[index / 64] = value ? memory_->held[index / 64] | bit : memory_->held[index / 64] & ~bit;
}

void PermitTable::free_the_dead() noexcept {
  bool freed = false;
  for_each_held(*memory_, [&](std::uint32_t i) {
    if (!is_free(memory_->permits[i].owner)) return;
    SharedPermit& permit = memory_->permits[i];
    // It may have been killed for its size: what it had grown to is the least its class needs.
    if (permit.class_index < kMostClasses && !permit.shared_process) {
      SizeClass& size = memory_->classes[permit.class_index];
      if (permit.most_grown_bytes > (size.peak_bytes != 0 ? size.peak_bytes : kUnknownSizeBytes)) {
        size.peak_bytes = permit.most_grown_bytes;
        size.input_bytes = permit.input_bytes;
      }
    }
    owe_byte_of(permit);
    set_held(i, false);
    freed = true;
  });
  if (!freed) return;
  publish(&memory_->changed_ns, machine_->now_ns());
  __atomic_add_fetch(&memory_->turn, 1, __ATOMIC_RELEASE);
}

std::uint32_t PermitTable::count() const noexcept {
  std::uint32_t running = 0;
  for_each_held(*memory_, [&](std::uint32_t i) {
    if (!memory_->permits[i].idle && memory_->permits[i].asleep_ns == 0) ++running;
  });
  return running;
}

bool PermitTable::any_idle() const noexcept {
  for (std::uint32_t i = 0; i < kMostPermits; ++i)
    if (held(i) && memory_->permits[i].idle) return true;
  return false;
}

std::uint32_t PermitTable::pool_threads() const noexcept {
  std::uint32_t number = 0;
  for (std::uint32_t i = 0; i < kMostPermits; ++i)
    if (held(i) && memory_->permits[i].pool_thread) ++number;
  return number;
}

bool PermitTable::lasts(const Permit& permit) const noexcept {
  if (memory_ == nullptr || !permit.held()) return false;
  const std::uint64_t bits = __atomic_load_n(&memory_->held[permit.index / 64], __ATOMIC_RELAXED);
  return (bits >> permit.index % 64 & 1) != 0 &&
         __atomic_load_n(&memory_->permits[permit.index].generation, __ATOMIC_RELAXED) == permit.generation;
}

std::uint64_t PermitTable::outstanding(std::uint64_t& own_virtual) const noexcept {
  const std::uint64_t now = machine_->now_ns();
  std::uint64_t all = 0;
  own_virtual = 0;
  for (std::uint32_t i = 0; i < kMostPermits; ++i) {
    if (!held(i)) continue;
    const SharedPermit& permit = memory_->permits[i];
    if (permit.pool_thread && permit.idle) continue;
    if (permit.asleep_ns != 0 && permit.asleep_ns + kShortSleep < now) continue;
    const std::uint64_t more = permit.expected_bytes - std::min(permit.expected_bytes, permit.grown_bytes);
    all += more;
    if (permit.holder == self_)
      own_virtual +=
          permit.expected_virtual_bytes - std::min(permit.expected_virtual_bytes, permit.grown_virtual_bytes);
  }
  return all;
}

std::uint32_t PermitTable::find_class(std::string_view name) noexcept {
  name = name.substr(0, kClassNameBytes - 1);
  for (std::uint32_t i = 0; i < kMostClasses; ++i) {
    SizeClass& size = memory_->classes[i];
    if (size.name[0] == '\0') {
      size.name[name.copy(size.name, name.size())] = '\0';
      return i;
    }
    if (std::strncmp(size.name, name.data(), name.size()) == 0 && size.name[name.size()] == '\0') return i;
  }
  return kMostClasses;  // more kinds than there is room for: not told apart from unknown ones
}

/// A smaller input is not expected to need less: much of it may be elsewhere, in headers.
std::uint64_t PermitTable::expected(std::uint32_t class_index, std::uint64_t input_bytes) const noexcept {
  if (class_index >= kMostClasses || memory_->classes[class_index].peak_bytes == 0) return kUnknownSizeBytes;
  const SizeClass& size = memory_->classes[class_index];
  return std::max(size.peak_bytes, in_proportion(size.peak_bytes, size.input_bytes, input_bytes));
}

SharedToken* PermitTable::owed(const TokenServer& server) noexcept {
  for (SharedToken& token : memory_->owed)
    if (token.kind == TokenKind::kByte && token.server == server) return &token;
  return nullptr;
}

/// Without room it takes the place of another: those that stay belong to servers that nobody asks for any more.
void PermitTable::owe(const TokenServer& server, std::uint8_t byte) noexcept {
  SharedToken* place = &memory_->owed[memory_->counts.granted % kMostOwedTokens];
  for (SharedToken& token : memory_->owed)
    if (token.kind == TokenKind::kNone) place = &token;
  *place = {server, {}, TokenKind::kByte, byte};
}

void PermitTable::owe_byte_of(SharedPermit& permit) noexcept {
  if (permit.token.kind == TokenKind::kByte) owe(permit.token.server, permit.token.byte);
  permit.token = {};
}

bool PermitTable::take_owed_byte(const TokenServer& server, std::uint8_t& byte) noexcept {
  Lock lock(*this);
  if (!lock) return false;
  free_the_dead();
  SharedToken* const token = owed(server);
  if (token == nullptr) return false;
  byte = token->byte;
  *token = {};
  return true;
}

void PermitTable::owe_byte(const TokenServer& server, std::uint8_t byte) noexcept {
  const Lock lock(*this);
  if (lock) owe(server, byte);
}

void PermitTable::byte_written(Permit& permit) noexcept {
  const Lock lock(*this);
  permit.has_byte = false;
  if (!lock) return;
  SharedPermit& slot = memory_->permits[permit.index];
  if (held(permit.index) && slot.generation == permit.generation) slot.token = {};
}

/// kNone: a byte has to be read.
TokenKind PermitTable::token_for(const PermitRequest& request) const noexcept {
  std::uint32_t idle = 0, lent = 0;
  bool first = true;
  for (std::uint32_t i = 0; i < kMostPermits; ++i) {
    const SharedPermit& slot = memory_->permits[i];
    if (!held(i) || !(slot.token.server == request.server)) continue;
    first = first && (slot.token.kind != TokenKind::kImplicit || slot.idle || !(slot.token.job == request.job));
    if (slot.token.kind == TokenKind::kByte && slot.idle) ++idle;
    if (slot.token.kind == TokenKind::kLent) ++lent;
  }
  if (request.has_byte) return TokenKind::kByte;
  if (first) return TokenKind::kImplicit;
  return lent < idle ? TokenKind::kLent : TokenKind::kNone;
}

/// Allocators reserve more than is used: never less than what is resident.
std::uint64_t PermitTable::expected_virtual(std::uint32_t class_index, std::uint64_t input_bytes) const noexcept {
  const std::uint64_t known = class_index < kMostClasses ? memory_->classes[class_index].peak_virtual_bytes : 0;
  return std::max(known, expected(class_index, input_bytes));
}

/// What is not there yet of what it is expected to take.
std::uint64_t PermitTable::needed(const PermitRequest& request, std::uint32_t class_index) const noexcept {
  const std::uint64_t all = expected(class_index, request.input_bytes);
  return request.in_process ? all : all - std::min(all, request.before.own_bytes);
}

/// Of a class of which none has finished: notes who has the smallest input of those that wait, whatever for.
static void note_smallest(const PermitRequest& request, SizeClass& size, std::uint64_t now) noexcept {
  if (size.smallest_seen_ns + kSmallestSeen > now && size.smallest_bytes < request.input_bytes) return;
  size.smallest_bytes = request.input_bytes;
  size.smallest_seen_ns = now;
}

/// Whether one with a smaller input waits, or may be about to come.
static bool smaller_goes_first(const PermitRequest& request, const SizeClass& size, std::uint64_t now) noexcept {
  return size.smallest_bytes < request.input_bytes ||
         now - request.since_ns < std::clamp(request.starting_ns, kLeastStart, kMostBurst);
}

bool PermitTable::grant(const PermitRequest& request, TokenKind token, Permit& permit) noexcept {
  const std::uint64_t now = machine_->now_ns();
  for (std::uint32_t i = 0; i < kMostPermits; ++i) {
    if (held(i)) continue;
    SharedPermit& slot = memory_->permits[i];
    const int result = pthread_mutex_trylock(&slot.owner);
    if (result == EOWNERDEAD) pthread_mutex_consistent(&slot.owner);
    if (result != 0 && result != EOWNERDEAD) continue;
    ++slot.generation;
    slot.class_index = find_class(request.size_class);
    if (slot.class_index < kMostClasses) memory_->classes[slot.class_index].smallest_seen_ns = 0;
    slot.holder = self();
    slot.thread = machine_->thread();
    slot.in_process = request.in_process;
    slot.pool_thread = request.pool_thread;
    slot.shared_process = 0;
    slot.idle = 0;
    slot.asleep_ns = 0;
    slot.input_bytes = request.input_bytes;
    slot.expected_bytes = expected(slot.class_index, request.input_bytes);
    slot.grown_bytes = slot.most_grown_bytes = request.in_process ? 0 : request.before.own_bytes;
    slot.expected_virtual_bytes = expected_virtual(slot.class_index, request.input_bytes);
    slot.base_virtual_bytes = request.before.virtual_bytes;
    slot.base_peak_virtual_bytes = request.before.peak_virtual_bytes;
    slot.grown_virtual_bytes = 0;
    slot.base_bytes = request.before.own_bytes;
    slot.base_peak_bytes = request.before.peak_own_bytes;
    slot.used_ticks = 0;
    slot.looked_ns = slot.checked_ns = 0;
    slot.moved_ns = now;
    slot.token = {};
    if (token != TokenKind::kNone) slot.token = {request.server, request.job, token, request.byte};
    for (SharedRider& rider : slot.riders) rider = {};
    for (std::uint32_t other = 0; other < kMostPermits; ++other)
      if (held(other) && memory_->permits[other].holder == slot.holder)
        slot.shared_process = memory_->permits[other].shared_process = 1;
    set_held(i, true);
    publish(&memory_->changed_ns, now);
    add(&ScopeCounts::granted);
    saw_in_flight(now);
    permit = {i, slot.generation, kMostRiders, slot.holder.process, token == TokenKind::kByte, request.byte};
    return true;
  }
  return false;
}

Admission PermitTable::try_take(const PermitRequest& request, const PermitLimits& limits, const MemoryFacts* memory,
                                Permit& permit) noexcept {
  Lock lock(*this);
  if (!lock) return Admission::kUnusable;
  static_cast<void>(self());
  free_the_dead();
  if (request.pool_thread && pool_threads() >= kMostPoolThreads) return Admission::kUnusable;
  if (!request.in_process) memory_->arrived_ns = std::max(memory_->arrived_ns, request.since_ns);
  const std::uint32_t running = count(), size_class = find_class(request.size_class);
  const bool known = size_class < kMostClasses && memory_->classes[size_class].peak_bytes != 0;
  const std::uint64_t now = machine_->now_ns();
  if (!known && !request.in_process && size_class < kMostClasses)
    note_smallest(request, memory_->classes[size_class], now);
  // Who lent its permit on may have moved since somebody looked.
  if (running < limits.most && memory == nullptr && any_idle()) return Admission::kAskMemory;
  if (running != 0) {
    // The longest waiter goes first once it has waited much longer: a large one would else never fit.
    const bool elder = request.since_ns + kElderLead < now &&
                       (memory_->elder_seen_ns + kElderSeen < now || request.since_ns <= memory_->elder_since_ns);
    if (elder) {
      memory_->elder_since_ns = request.since_ns;
      memory_->elder_seen_ns = now;
    } else if (memory_->elder_seen_ns + kElderSeen >= now && memory_->elder_since_ns + kElderLead < request.since_ns) {
      return Admission::kOthersTurn;
    }
    if (running >= (limits.is_auto && !known ? std::min(limits.most, kUnknownSizeLimit) : limits.most))
      return Admission::kFull;
    const std::uint64_t own = needed(request, size_class);
    if (memory == nullptr) {
      const bool refused = !elder && memory_->refused_turn == memory_->turn && own >= memory_->refused_bytes &&
                           memory_->refused_ns + kRefusedFor > now;
      return refused ? Admission::kNoMemory : Admission::kAskMemory;
    }
    if (memory->allowed_bytes != 0) {
      std::uint64_t own_virtual = 0;
      const std::uint64_t all = outstanding(own_virtual) + own + limits.reserve_bytes;
      if (memory->pressure_percent >= kMostPressurePercent || all > memory->available_bytes) {
        memory_->refused_ns = now;
        memory_->refused_bytes = own;
        memory_->refused_turn = memory_->turn;
        return Admission::kNoMemory;
      }
      if (!request.in_process &&
          now - memory_->arrived_ns < kStarts * std::clamp(request.starting_ns, kLeastStart, kMostStart) &&
          memory->available_bytes - all < kNewcomers * request.before.own_bytes)
        return Admission::kNoMemory;
      if (request.in_process) {
        // The process's own limit of address space counts what this process grows by.
        const std::uint64_t most = machine_->address_space_bytes();
        if (most != std::numeric_limits<std::uint64_t>::max()) {
          const std::uint64_t used = process_memory(*machine_, self_.process).virtual_bytes;
          if (own_virtual + expected_virtual(size_class, request.input_bytes) > most - std::min(most, used))
            return Admission::kNoMemory;
        }
      }
    }
    if (elder) memory_->elder_seen_ns = 0;
  } else if (!known && !request.in_process && size_class < kMostClasses) {
    if (memory == nullptr) return Admission::kAskMemory;
    // Two do not fit: which one goes first decides for how long it is alone.
    if (memory->allowed_bytes != 0 &&
        memory->available_bytes < 2 * needed(request, size_class) + limits.reserve_bytes &&
        smaller_goes_first(request, memory_->classes[size_class], now))
      return Admission::kOthersTurn;
  }
  if (request.server.inode == 0)
    return grant(request, TokenKind::kNone, permit) ? Admission::kGranted : Admission::kFull;
  const TokenKind token = token_for(request);
  if (token == TokenKind::kNone) return Admission::kNoToken;
  return grant(request, token, permit) ? Admission::kGranted : Admission::kFull;
}

bool PermitTable::take_anyway(const PermitRequest& request, Permit& permit) noexcept {
  Lock lock(*this);
  return lock && grant(request, TokenKind::kNone, permit);
}

void PermitTable::free_dead_riders(SharedPermit& permit) noexcept {
  for (SharedRider& rider : permit.riders)
    if (rider.process.process != 0 && rider.process.space == self().space &&
        process_times(*machine_, rider.process.process).start_ticks != rider.process.start_ticks)
      rider = {};
}

bool PermitTable::ride(const ProcessName& parent, std::uint32_t generation, Permit& permit) noexcept {
  Lock lock(*this);
  if (!lock) return false;
  free_the_dead();
  for (std::uint32_t i = 0; i < kMostPermits; ++i) {
    SharedPermit& slot = memory_->permits[i];
    if (!held(i) || (generation != 0 && slot.generation != generation)) continue;
    bool of_parent = slot.holder == parent;
    for (const SharedRider& rider : slot.riders) of_parent = of_parent || rider.process == parent;
    if (!of_parent || self() == slot.holder || slot.asleep_ns != 0) continue;
    if (slot.in_process && !thread_sleeps(*machine_, slot.holder.process, slot.thread)) continue;
    free_dead_riders(slot);
    std::uint32_t place = kMostRiders;
    bool taken = false;
    for (std::uint32_t r = 0; r < kMostRiders; ++r) {
      if (slot.riders[r].process.process == 0) {
        place = std::min(place, r);
      } else {
        taken = taken || slot.riders[r].parent == parent.process;
      }
    }
    if (taken || place == kMostRiders) continue;
    slot.riders[place] = {self(), parent.process};
    permit = {i, slot.generation, place, self().process, false, 0};
    return true;
  }
  return false;
}

/// What a compilation that ends has taken, at its peak; beside others of its process as far as that was looked at.
std::uint64_t PermitTable::grown_by(const SharedPermit& permit, const ProcessMemory& now) const noexcept {
  const std::uint64_t grown = permit.most_grown_bytes;
  if (permit.pool_thread) {
    // Its part of what the process grew by, as far as it was looked at or was a new peak.
    std::uint64_t sharers = 0;
    for (std::uint32_t i = 0; i < kMostPermits; ++i)
      if (held(i) && memory_->permits[i].holder == permit.holder && memory_->permits[i].asleep_ns == 0) ++sharers;
    if (permit.asleep_ns != 0 || now.peak_own_bytes <= permit.base_peak_bytes) return grown;
    return std::max(grown, (now.peak_own_bytes - std::min(now.peak_own_bytes, permit.base_bytes)) /
                               std::max<std::uint64_t>(1, sharers));
  }
  if (!permit.in_process) return std::max(grown, now.peak_own_bytes);
  if (permit.shared_process) return grown;
  const std::uint64_t top = now.peak_own_bytes > permit.base_peak_bytes ? now.peak_own_bytes : now.own_bytes;
  return std::max(grown, top - std::min(top, permit.base_bytes));
}

void PermitTable::learn(SharedPermit& permit, std::uint64_t grown, const ProcessMemory& now) noexcept {
  if (permit.class_index >= kMostClasses || grown == 0) return;
  SizeClass& size = memory_->classes[permit.class_index];
  // Beside others of its process its growth is not its own.
  if (permit.shared_process && !permit.pool_thread) return;
  ++size.finished;
  if (permit.in_process && !permit.pool_thread) {
    const std::uint64_t top =
        now.peak_virtual_bytes > permit.base_peak_virtual_bytes ? now.peak_virtual_bytes : now.virtual_bytes;
    size.peak_virtual_bytes = std::max(size.peak_virtual_bytes, top - std::min(top, permit.base_virtual_bytes));
  }
  if (grown >= size.peak_bytes) {
    size.peak_bytes = grown;
    size.input_bytes = permit.input_bytes;
    return;
  }
  // Up at once, down slowly: a class holds small and large ones. That less input takes less says nothing.
  const std::uint64_t alike = std::max(grown, in_proportion(grown, permit.input_bytes, size.input_bytes));
  if (alike < size.peak_bytes) size.peak_bytes -= (size.peak_bytes - alike) / 16;
}

void PermitTable::give_back(const Permit& permit, const ProcessMemory& now) noexcept {
  if (!permit.held() || machine_->process() != permit.process) return;
  {
    Lock lock(*this);
    if (!lock) return;
    SharedPermit& slot = memory_->permits[permit.index];
    if (!held(permit.index) || slot.generation != permit.generation) return;
    if (permit.riding()) {
      SharedRider& own = slot.riders[permit.rider];
      if (own.process == self()) own = {};
      // Its holder and those that ride above it are there beside it.
      std::uint64_t all = now.peak_own_bytes;
      const auto memory_of = [this](const ProcessName& process) {
        return process.process != 0 && process.space == self().space
                   ? process_memory(*machine_, process.process).own_bytes
                   : 0;
      };
      if (!slot.in_process) all += memory_of(slot.holder);
      for (const SharedRider& rider : slot.riders) all += memory_of(rider.process);
      slot.most_grown_bytes = std::max(slot.most_grown_bytes, all);
      return;
    }
    if (slot.thread != machine_->thread()) return;  // the kernel gives it back with the thread
    owe_byte_of(slot);
    const std::uint64_t now_ns = machine_->now_ns();
    saw_in_flight(now_ns);
    if (now.own_bytes != 0) {
      slot.grown_bytes = grown_by(slot, now);
      saw_held_bytes(now_ns);
      learn(slot, slot.grown_bytes, now);
    }
    set_held(permit.index, false);
    pthread_mutex_unlock(&slot.owner);
    publish(&memory_->changed_ns, now_ns);
    __atomic_add_fetch(&memory_->turn, 1, __ATOMIC_RELEASE);
  }
  machine_->wake(&memory_->turn);
}

void PermitTable::sleep(const Permit& permit) noexcept {
  {
    const Lock lock(*this);
    if (!lock || !permit.held()) return;
    SharedPermit& slot = memory_->permits[permit.index];
    if (!held(permit.index) || slot.generation != permit.generation) return;
    const std::uint64_t now = machine_->now_ns();
    saw_in_flight(now);
    slot.asleep_ns = now;
    publish(&memory_->changed_ns, now);
    __atomic_add_fetch(&memory_->turn, 1, __ATOMIC_RELEASE);
  }
  machine_->wake(&memory_->turn);
}

bool PermitTable::wake_up(const Permit& permit, const PermitLimits& limits, bool anyway) noexcept {
  const Lock lock(*this);
  if (!lock || !permit.held()) return false;
  SharedPermit& slot = memory_->permits[permit.index];
  if (!held(permit.index) || slot.generation != permit.generation) return false;
  const std::uint64_t now = machine_->now_ns();
  if (!anyway && (slot.asleep_ns + kShortSleep < now || count() >= limits.most)) return false;
  slot.asleep_ns = 0;
  slot.idle = 0;
  slot.moved_ns = now;
  saw_in_flight(now);
  return true;
}

bool PermitTable::serve(Permit& permit) noexcept {
  const Lock lock(*this);
  if (!lock) return false;
  for (std::uint32_t i = 0; i < kMostPermits; ++i) {
    const SharedPermit& slot = memory_->permits[i];
    if (!held(i) || !slot.in_process || slot.pool_thread || !(slot.holder == self())) continue;
    if (!thread_sleeps(*machine_, slot.holder.process, slot.thread)) continue;
    permit = {i, slot.generation, kMostRiders, self().process, false, 0};
    return true;
  }
  return false;
}

void PermitTable::look_at_holders(std::uint64_t idle_ns) noexcept {
  struct Seen {
    std::uint32_t index, generation, in_process, pool_thread, runs, found;
    ProcessName holder;
    pid_t thread;
    std::uint64_t base_bytes, base_virtual_bytes, used_ticks, own_bytes, virtual_bytes, sharers;
    SharedRider riders[kMostRiders];
  };
  constexpr std::uint32_t kAtOnce = 16;
  const std::uint64_t now = machine_->now_ns();
  for (std::uint32_t from = 0; from < kMostPermits;) {
    Seen seen[kAtOnce];
    std::uint32_t number = 0;
    {
      Lock lock(*this);
      if (!lock) return;
      for (; from < kMostPermits && number < kAtOnce; ++from) {
        SharedPermit& slot = memory_->permits[from];
        if (!held(from) || slot.asleep_ns != 0 || slot.looked_ns + kLookEvery > now) continue;
        if (slot.holder.space != self().space) continue;
        Seen& one = seen[number++];
        one = {from,
               slot.generation,
               slot.in_process,
               slot.pool_thread,
               0,
               0,
               slot.holder,
               slot.thread,
               slot.base_bytes,
               slot.base_virtual_bytes,
               0,
               0,
               0,
               0,
               {}};
        std::copy(std::begin(slot.riders), std::end(slot.riders), one.riders);
        for (std::uint32_t other = 0; other < kMostPermits; ++other)
          if (held(other) && memory_->permits[other].holder == slot.holder && memory_->permits[other].asleep_ns == 0)
            ++one.sharers;
      }
    }
    for (std::uint32_t i = 0; i < number; ++i) {
      const auto add = [this, &one = seen[i]](const ProcessName& process) {
        if (process.space != self_.space) return;
        ProcessTimes times = process_times(*machine_, process.process);
        if (times.start_ticks != process.start_ticks) return;
        one.found = one.found || process == one.holder;
        if (one.pool_thread) times = thread_times(*machine_, process.process, one.thread);
        one.used_ticks += times.used_ticks;
        one.runs |= times.runs;
        const ProcessMemory memory = process_memory(*machine_, process.process);
        const std::uint64_t own = memory.own_bytes, sharers = std::max<std::uint64_t>(1, one.sharers);
        if (process == one.holder)
          one.virtual_bytes = (memory.virtual_bytes - std::min(memory.virtual_bytes, one.base_virtual_bytes)) / sharers;
        one.own_bytes +=
            process == one.holder && one.in_process ? (own - std::min(own, one.base_bytes)) / sharers : own;
      };
      add(seen[i].holder);
      for (const SharedRider& rider : seen[i].riders)
        if (rider.process.process != 0) add(rider.process);
    }
    Lock lock(*this);
    if (!lock) return;
    for (std::uint32_t i = 0; i < number; ++i) {
      SharedPermit& slot = memory_->permits[seen[i].index];
      if (!held(seen[i].index) || slot.generation != seen[i].generation) continue;
      slot.looked_ns = now;
      if (!seen[i].found) continue;  // it is hidden from this user
      slot.grown_bytes = seen[i].own_bytes;
      slot.grown_virtual_bytes = seen[i].virtual_bytes;
      slot.most_grown_bytes = std::max(slot.most_grown_bytes, slot.grown_bytes);
      if (slot.idle && seen[i].runs) {
        slot.idle = 0;
        slot.moved_ns = slot.checked_ns = now;
        slot.used_ticks = seen[i].used_ticks;
        continue;
      }
      if (slot.checked_ns != 0 && slot.checked_ns + kCheckEvery > now) continue;
      const std::uint64_t more = seen[i].used_ticks - std::min(seen[i].used_ticks, slot.used_ticks);
      // On a crowded machine who waits for a processor gets next to none.
      if (slot.checked_ns == 0 || seen[i].runs || more * kTick * 100 >= (now - slot.checked_ns) * kMovingPercent)
        slot.moved_ns = now;
      slot.used_ticks = seen[i].used_ticks;
      slot.checked_ns = now;
      const std::uint64_t still_ns = now - std::min(now, slot.moved_ns);
      const std::uint32_t idle = still_ns >= (slot.pool_thread ? idle_ns / kPoolThreadHaste : idle_ns);
      if (idle && !slot.idle) publish(&memory_->changed_ns, now);
      slot.idle = idle;
    }
    if (number != 0) saw_held_bytes(now);
  }
}

std::uint32_t PermitTable::in_flight() noexcept {
  Lock lock(*this);
  if (!lock) return 0;
  free_the_dead();
  return count();
}

void PermitTable::add(std::uint64_t ScopeCounts::*counter, std::uint64_t more) noexcept {
  if (usable()) __atomic_add_fetch(&(memory_->counts.*counter), more, __ATOMIC_RELAXED);
}

void PermitTable::saw_headroom(std::uint64_t bytes) noexcept {
  if (usable()) saw(memory_->headroom_bytes, bytes, machine_->now_ns());
}

void PermitTable::saw_in_flight(std::uint64_t now_ns) noexcept { publish(&memory_->in_flight_ns[count()], now_ns); }

void PermitTable::saw_held_bytes(std::uint64_t now_ns) noexcept {
  std::uint64_t all = 0;
  for_each_held(*memory_, [&](std::uint32_t i) { all += memory_->permits[i].grown_bytes; });
  saw(memory_->held_bytes, all, now_ns);
}

ScopeCounts PermitTable::counts() const noexcept {
  ScopeCounts counts;
  if (!usable()) return counts;
  for (std::uint64_t ScopeCounts::*const counter : kScopeCounters)
    counts.*counter = __atomic_load_n(&(memory_->counts.*counter), __ATOMIC_RELAXED);
  return counts;
}

std::uint32_t PermitTable::peak_in_flight(std::uint64_t since_ns) const noexcept {
  for (std::uint32_t number = kMostPermits; usable() && number != 0; --number)
    if (seen_since(memory_->in_flight_ns[number], since_ns)) return number;
  return 0;
}

std::uint64_t PermitTable::most_held_bytes(std::uint64_t since_ns) const noexcept {
  for (std::uint32_t step = SharedFigures::kSteps; usable() && step-- != 0;)
    if (seen_since(memory_->held_bytes.seen_ns[step], since_ns))
      return __atomic_load_n(&memory_->held_bytes.figures[step], __ATOMIC_RELAXED);
  return 0;
}

std::uint64_t PermitTable::least_headroom_bytes(std::uint64_t since_ns) const noexcept {
  for (std::uint32_t step = 0; usable() && step < SharedFigures::kSteps; ++step)
    if (seen_since(memory_->headroom_bytes.seen_ns[step], since_ns))
      return __atomic_load_n(&memory_->headroom_bytes.figures[step], __ATOMIC_RELAXED);
  return std::numeric_limits<std::uint64_t>::max();
}

std::uint64_t PermitTable::changed_ns() const noexcept {
  return __atomic_load_n(&memory_->changed_ns, __ATOMIC_RELAXED);
}

std::uint64_t PermitTable::outstanding_bytes() noexcept {
  Lock lock(*this);
  std::uint64_t own_virtual = 0;
  return lock ? outstanding(own_virtual) : 0;
}

std::uint64_t PermitTable::expected_bytes(std::string_view size_class, std::uint64_t input_bytes) noexcept {
  Lock lock(*this);
  return lock ? expected(find_class(size_class), input_bytes) : kUnknownSizeBytes;
}

std::uint32_t PermitTable::classes(SizeClass* to, std::uint32_t most) noexcept {
  Lock lock(*this);
  std::uint32_t number = 0;
  if (!lock) return 0;
  for (const SizeClass& size : memory_->classes)
    if (size.name[0] != '\0' && number < most) {
      to[number] = size;
      to[number++].name[kClassNameBytes - 1] = '\0';  // whatever others have written
    }
  return number;
}

std::uint32_t PermitTable::holders(PermitHolder* to, std::uint32_t most) noexcept {
  Lock lock(*this);
  std::uint32_t number = 0;
  if (!lock) return 0;
  free_the_dead();
  for_each_held(*memory_, [&](std::uint32_t i) {
    if (number == most) return;
    const SharedPermit& slot = memory_->permits[i];
    PermitHolder& holder = to[number++];
    holder = {slot.holder.process, {}, slot.idle != 0, slot.asleep_ns != 0};
    if (slot.class_index >= kMostClasses) return;
    std::memcpy(holder.size_class, memory_->classes[slot.class_index].name, kClassNameBytes);
    holder.size_class[kClassNameBytes - 1] = '\0';  // whatever others have written
  });
  return number;
}

}  // namespace graphpool
