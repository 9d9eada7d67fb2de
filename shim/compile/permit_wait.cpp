#include "shim/compile/permit_wait.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <utility>

#include "shim/base/log.h"
#include "shim/base/waits.h"
#include "shim/compile/jobserver.h"
#include "shim/compile/relocated_memory.h"

namespace graphpool {
namespace {

/// Others may have changed the table since this one looked at the clock.
constexpr std::uint64_t kAhead = 1'000'000'000;
/// Where there is room for the libraries of so many waiters, they keep theirs.
constexpr std::uint64_t kManyWaiters = 64;
constexpr double kMiBs = 1.0 / static_cast<double>(kMiB);

void add(std::uint64_t& counter, std::uint64_t more = 1) noexcept {
  __atomic_add_fetch(&counter, more, __ATOMIC_RELAXED);
}

template <typename Better>
void keep(std::uint64_t& counter, std::uint64_t value, Better better) noexcept {
  std::uint64_t before = __atomic_load_n(&counter, __ATOMIC_RELAXED);
  while (better(value, before) &&
         !__atomic_compare_exchange_n(&counter, &before, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

const char* why_not(Admission admission) noexcept {
  return admission == Admission::kNoMemory     ? "memory does not allow another"
         : admission == Admission::kNoToken    ? "make's jobserver allows no other"
         : admission == Admission::kOthersTurn ? "another has waited longer"
                                               : "as many run as may";
}

/// One thread of the process says that it waits, every ten seconds; the others are silent.
bool may_say(std::uint64_t now_ns) noexcept {
  static constinit std::atomic<std::uint64_t> last_ns{0};
  std::uint64_t last = last_ns.load(std::memory_order_relaxed);
  return (last == 0 || now_ns - last >= kSayEvery) &&
         last_ns.compare_exchange_strong(last, now_ns, std::memory_order_relaxed);
}

class Wait {
 public:
  Wait(PermitTable& table, const Machine& machine, const PermitSettings& settings, PermitRequest& request,
       const ParentPermit& parent, PermitCounters& counters) noexcept
      : table_(table),
        machine_(machine),
        settings_(settings),
        request_(request),
        parent_(parent),
        counters_(counters) {}

  bool run(Permit& permit) noexcept {
    if (rides(permit)) return rode();
    std::uint64_t pause = kAskEvery;
    std::uint32_t turn_before = 0;
    std::optional<NotedWait> noted;
    for (bool waited = false;; waited = true) {
      const std::uint32_t turn = __atomic_load_n(table_.turn(), __ATOMIC_ACQUIRE);
      const Admission admission = try_once(permit);
      const std::uint64_t now = machine_.now_ns();
      const bool ended = admission == Admission::kGranted || admission == Admission::kUnusable;
      const GoesOn how = ended || request_.goes_on == nullptr ? GoesOn::kNo : request_.goes_on(table_);
      if (how == GoesOn::kRiding) {
        if (waited) waited_until(now);
        return rode();
      }
      if (how == GoesOn::kOverTheLimit) permit = table_.take_anyway(request_);
      if (ended || permit.held() || gave_up(now, permit)) {
        if (waited) waited_until(now);
        if (!permit.held()) return count_one(counters_.without, &ScopeCounts::without), false;
        add(counters_.taken);
        keep(counters_.most_in_flight, table_.in_flight(), std::greater<>());
        return true;
      }
      say(now, admission);
      if (admission == Admission::kNoMemory) drop_relocated_memory();
      if (!noted) noted.emplace("a compile permit");
      noted->because(why_not(admission));
      // A process that has given its permit back still has its memory for a while. Nobody is woken when that memory
      // goes.
      const bool soon = admission == Admission::kNoMemory || admission == Admission::kOthersTurn;
      pause = !soon && request_.goes_on == nullptr ? kAskEvery
              : turn != turn_before || !waited     ? kAskSoon
                                                   : std::min(2 * pause, kAskEvery);
      turn_before = turn;
      machine_.wait(table_.turn(), turn, pause);
      table_.look_at_holders(settings_.idle_ns);
      // Other compilations of this process may have grown meanwhile: that is not this one's growth.
      request_.before = process_memory(machine_, machine_.process());
      // A sibling that rode may have ended.
      if (rides(permit)) {
        waited_until(machine_.now_ns());
        return rode();
      }
    }
  }

 private:
  bool rides(Permit& permit) noexcept {
    if (parent_.holder.process != 0) permit = table_.ride(parent_.holder, parent_.generation);
    return permit.held();
  }
  /// Counts in this process, and in all of the scope.
  void count_one(std::uint64_t& counter, std::uint64_t ScopeCounts::*in_scope, std::uint64_t more = 1) noexcept {
    add(counter, more);
    table_.figures().add(in_scope, more);
  }
  bool rode() noexcept { return count_one(counters_.ridden, &ScopeCounts::ridden), true; }
  void waited_until(std::uint64_t now) noexcept {
    count_one(counters_.waited, &ScopeCounts::waited);
    count_one(counters_.waited_ns, &ScopeCounts::waited_ns, now - request_.since_ns);
  }

  /// A byte is read only when nothing else is missing, and not kept while waiting: two who wait never hold what the
  /// other waits for.
  Admission try_once(Permit& permit) noexcept {
    const Admission admission = ask(permit);
    JobTokens* const tokens = settings_.tokens;
    if (admission != Admission::kNoToken || tokens == nullptr) return admission;
    request_.byte = table_.take_owed_byte(request_.server);
    if (!request_.byte.has_value()) request_.byte = tokens->take();
    if (!request_.byte.has_value()) return admission;
    const Admission second = ask(permit);
    const std::uint8_t byte = *std::exchange(request_.byte, std::nullopt);
    if (second == Admission::kGranted) {
      add(counters_.bytes_read);
    } else if (!tokens->put(byte)) {
      table_.owe_byte(request_.server, byte);
    }
    return second;
  }

  Admission ask(Permit& permit) noexcept {
    PermitLimits limits = permit_limits(settings_, machine_, 0);
    const Admission admission = table_.try_take(request_, limits, nullptr, permit);
    if (admission != Admission::kAskMemory) return admission;
    table_.look_at_holders(settings_.idle_ns);
    const MemoryFacts memory = read_memory(machine_);
    limits = permit_limits(settings_, machine_, memory.allowed_bytes);
    if (memory.allowed_bytes != 0) {
      available_bytes_ = memory.available_bytes - std::min(memory.available_bytes, limits.reserve_bytes);
      const std::uint64_t spoken_for = limits.reserve_bytes + table_.outstanding_bytes();
      headroom_bytes_ = memory.available_bytes - std::min(memory.available_bytes, spoken_for);
      keep(counters_.least_headroom_bytes, headroom_bytes_, std::less<>());
      table_.figures().seen_headroom(headroom_bytes_, machine_.now_ns());
    }
    return table_.try_take(request_, limits, &memory, permit);
  }

  /// Gives back memory of this waiter's libraries where little is left: another compilation may need it.
  void drop_relocated_memory() noexcept {
    if (request_.relocated == nullptr || available_bytes_ / kManyWaiters >= request_.before.own_bytes) return;
    static_cast<void>(request_.relocated->drop(machine_));
  }

  /// Goes on over the limit if no permit has changed hands for long. Returns whether it does.
  bool gave_up(std::uint64_t now, Permit& permit) noexcept {
    // A time in the future does not count: somebody has overwritten the table.
    const std::uint64_t changed = table_.changed_ns();
    const std::uint64_t last = changed > now + kAhead ? request_.since_ns : std::max(request_.since_ns, changed);
    if (now < last || now - last < kPatience * settings_.idle_ns) return false;
    permit = table_.take_anyway(request_);
    count_one(counters_.went_on, &ScopeCounts::went_on);
    if (settings_.says)
      log_warn("compile: no compilation has ended for %llu s: another one begins beside those that run",
               static_cast<unsigned long long>((now - last) / 1'000'000'000));
    return true;
  }

  void say(std::uint64_t now, Admission admission) noexcept {
    if (!settings_.says || now - request_.since_ns < kSayEvery || !may_say(now)) return;
    log_warn("compile: waiting for %llu s: %u compilations run, %s, %.0f MiB left for more",
             static_cast<unsigned long long>((now - request_.since_ns) / 1'000'000'000), table_.in_flight(),
             admission == Admission::kFull ? "which is the limit" : why_not(admission),
             static_cast<double>(headroom_bytes_) * kMiBs);
  }

  PermitTable& table_;
  const Machine& machine_;
  const PermitSettings& settings_;
  PermitRequest& request_;
  const ParentPermit& parent_;
  PermitCounters& counters_;
  std::uint64_t headroom_bytes_ = 0;
  std::uint64_t available_bytes_ = ~std::uint64_t{0};  ///< less the reserve; as it was read last
};

}  // namespace

PermitLimits permit_limits(const PermitSettings& settings, const Machine& machine,
                           std::uint64_t allowed_bytes) noexcept {
  PermitLimits limits;
  limits.is_auto = settings.max.is_auto();
  limits.most = settings.max.count;
  if (limits.is_auto) {
    limits.most = kMostPermits;
    for (const std::uint32_t most : {settings.pool_size, settings.quota})
      if (most != 0) limits.most = std::min(limits.most, most);
    limits.most_here = std::clamp<std::uint32_t>(machine.processors(), 1, kMostPermits);
  }
  limits.most = std::clamp<std::uint32_t>(limits.most, 1, kMostPermits);
  limits.reserve_bytes = settings.reserve.resolve(allowed_bytes);
  return limits;
}

void give_back_owed_bytes(PermitTable& table, JobTokens& tokens) noexcept {
  while (const std::optional<std::uint8_t> byte = table.take_owed_byte(tokens.server()))
    if (!tokens.put(*byte)) return table.owe_byte(tokens.server(), *byte);
}

void end_permit(PermitTable& table, const PermitSettings& settings, Permit& permit, const ProcessMemory& now) noexcept {
  if (!permit.held() || permit.process != getpid()) return;
  const GuestScope guest;
  // If the process is killed between the write and the note, the server gets a byte too many. The other order would
  // lose one.
  if (permit.byte.has_value() && settings.tokens != nullptr && settings.tokens->put(*permit.byte))
    table.byte_written(permit);
  table.give_back(permit, now);
  permit = {};
  if (settings.tokens != nullptr) give_back_owed_bytes(table, *settings.tokens);
}

bool wait_for_permit(PermitTable& table, const Machine& machine, const PermitSettings& settings, PermitRequest request,
                     const ParentPermit& parent, PermitCounters& counters, Permit& permit) noexcept {
  const GuestScope guest;
  if (!table.usable()) return add(counters.without), false;
  request.since_ns = machine.now_ns();
  // A pool's thread could keep a byte from make for as long as its pool is there.
  if (settings.tokens != nullptr && request.kind != HolderKind::kPoolThread) {
    request.server = settings.tokens->server();
    request.job = settings.tokens->job();
  }
  permit = {};
  return Wait(table, machine, settings, request, parent, counters).run(permit);
}

}  // namespace graphpool
