#include "shim/verify/stale_addresses.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "shim/base/log.h"
#include "shim/callsite/callsite.h"
#include "shim/kernel/argument_layout.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/shared_memory.h"
#include "shim/recording/materialisation.h"
#include "shim/recording/operand_addresses.h"
#include "shim/recording/signature_bits.h"
#include "shim/verify/both_ways.h"

namespace graphpool {
namespace {

/// The number of the kernel's argument at this place in the binding; its payload begins at `payload`.
std::uint32_t argument_at(const Operation& operation, std::uint32_t payload, std::uint32_t place) noexcept {
  const std::uint32_t offset = place - payload - static_cast<std::uint32_t>(sizeof(KernelPayload));
  const auto arguments = operation.layout->arguments();
  const auto behind =
      std::upper_bound(arguments.begin(), arguments.end(), offset,
                       [](std::uint32_t wanted, const Argument& argument) { return wanted < argument.offset; });
  return static_cast<std::uint32_t>(behind - arguments.begin()) - 1;
}

/// Calls visit(operation, number of the argument or operand, address, whether it is a word that may be no address) for
/// all that this operation names, in child graphs each operation inside.
template <typename Visit>
void for_each_named(const Operation& operation, const Binding& binding, const Visit& visit) {
  for_each_inner(operation, 0, [&](const Operation& inner, std::uint32_t payload) {
    const bool kernel = launches_kernel(inner);
    std::uint32_t number = 0;
    const auto pointer = [&](std::uint32_t place, std::uint64_t address, bool) {
      visit(inner, kernel ? argument_at(inner, payload, place) : number++, address, false);
    };
    const auto word = [&](std::uint32_t place, std::uint64_t address) {
      visit(inner, argument_at(inner, payload, place), address, true);
    };
    with_kind(inner.signature.kind, [&](auto kind) {
      kind.for_each_address(inner, binding, payload, pointer);
      kind.for_each_hidden_word(inner, binding, payload, word);
    });
  });
}

const Block* live_block(std::uint64_t address) noexcept {
  const Block* const block = address == 0 ? nullptr : block_table().find(reinterpret_cast<const void*>(address));
  return block != nullptr && block->live() ? block : nullptr;
}

std::uint64_t order_at(std::uint64_t address) noexcept {
  const Block* const block = live_block(address);
  return block == nullptr ? 0u : std::uint64_t{block->order};
}

/// Of the live allocations that end less than kNear before the address, returns the last; null: there is none.
const Block* block_before(std::uint64_t address) {
  std::vector<Block*> near;
  const std::uint64_t from = address - std::min<std::uint64_t>(address, StaleAddresses::kNear);
  const LockGuard guard(g_blocks_lock);
  block_table().overlaps(from, address - from, &near);
  const Block* last = nullptr;
  for (const Block* const block : near)
    if (block->live() && (last == nullptr || last->address() < block->address())) last = block;
  return last;
}

/// Whether something is mapped at the address in the process.
bool is_host_memory(std::uint64_t address) noexcept {
  constexpr std::uint64_t kPage = 4096;
  const int kept = errno;
  unsigned char resident = 0;
  const bool mapped = mincore(reinterpret_cast<void*>(address / kPage * kPage), 1, &resident) == 0;
  errno = kept;
  return mapped;
}

std::string site_text(const char* before, std::uint32_t call_site) {
  if (call_site == 0) return "";
  return before + std::string(callsites().text(call_site));
}

const char* text_of(StaleKind kind) noexcept {
  switch (kind) {
    case StaleKind::kFreed:
      return "an address in memory that was freed";
    case StaleKind::kReused:
      return "an address in memory that was freed, and that is another allocation's now";
    case StaleKind::kUnmapped:
      return "an address in memory that was unmapped";
    case StaleKind::kOtherDevice:
      return "an address of another device's memory";
    case StaleKind::kBeyond:
      return "an address beyond the end of an allocation";
    case StaleKind::kNowhere:
      break;
  }
  return "an address where no memory is";
}

}  // namespace

const char* word_of(StaleKind kind) noexcept {
  switch (kind) {
    case StaleKind::kFreed:
      return "freed";
    case StaleKind::kReused:
      return "reused";
    case StaleKind::kUnmapped:
      return "unmapped";
    case StaleKind::kOtherDevice:
      return "other_device";
    case StaleKind::kBeyond:
      return "beyond";
    case StaleKind::kNowhere:
      break;
  }
  return "nowhere";
}

void StaleAddresses::take_out(Ranges* ranges, std::uintptr_t base, std::uintptr_t end) {
  auto first = ranges->lower_bound(base);
  if (first != ranges->begin() && std::prev(first)->second.end > base) --first;
  while (first != ranges->end() && first->first < end) {
    const std::uintptr_t begin = first->first;
    const Range range = first->second;
    first = ranges->erase(first);
    Range part = range;
    part.end = base;
    if (begin < base) ranges->emplace(begin, part);
    if (range.end > end) ranges->emplace(end, range);
  }
}

void StaleAddresses::put_in(Ranges* ranges, std::uintptr_t base, const Range& range) {
  take_out(ranges, base, range.end);
  if (ranges->size() >= kMostRanges) ranges->erase(ranges->begin());
  ranges->emplace(base, range);
}

bool StaleAddresses::find(const Ranges& ranges, std::uintptr_t address, Range* range) {
  const auto behind = ranges.upper_bound(address);
  if (behind == ranges.begin() || std::prev(behind)->second.end <= address) return false;
  *range = std::prev(behind)->second;
  return true;
}

void StaleAddresses::memory_leaves(const void* address) noexcept {
  const Block* const block = block_table().find(address);
  if (block == nullptr) return;
  const std::uint32_t freed_by = callsites().here();
  try {
    const LockGuard guard(lock_);
    put_in(&freed_, block->address(), {block->address() + block->bytes(), block->order, block->call_site, freed_by});
  } catch (const std::bad_alloc&) {
  }
}

void StaleAddresses::mapped(const void* base, std::size_t bytes) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(base);
  const std::uint32_t mapped_by = callsites().here();
  try {
    const LockGuard guard(lock_);
    take_out(&freed_, from, from + bytes);
    put_in(&mapped_, from, {from + bytes, 0, mapped_by, 0});
  } catch (const std::bad_alloc&) {
  }
}

void StaleAddresses::unmapped(const void* base, std::size_t bytes) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(base);
  const std::uint32_t unmapped_by = callsites().here();
  try {
    const LockGuard guard(lock_);
    Range range{0, 0, 0, 0};
    static_cast<void>(find(mapped_, from, &range));
    put_in(&freed_, from, {from + bytes, 0, range.allocated_by, unmapped_by});
    take_out(&mapped_, from, from + bytes);
  } catch (const std::bad_alloc&) {
  }
}

void StaleAddresses::peer_enabled(int device, int peer) noexcept {
  if (device < 0 || static_cast<std::size_t>(device) >= peers_.size()) return;
  const bool one = peer >= 0 && peer < 64;
  peers_[static_cast<std::size_t>(device)].fetch_or(one ? std::uint64_t{1} << peer : ~std::uint64_t{0},
                                                    std::memory_order_relaxed);
}

/// Whether kernels of `device` may use the other one's memory. True also if a number is beyond what is kept: nothing is
/// known of such devices.
bool StaleAddresses::is_peer(int device, int other) const noexcept {
  if (device == other || device < 0 || device >= 64 || other < 0 || other >= 64) return true;
  return (peers_[static_cast<std::size_t>(device)].load(std::memory_order_relaxed) >> other & 1) != 0;
}

StaleAddresses::Allocations StaleAddresses::allocations_of(const std::vector<Operation>& operations,
                                                           const Binding& binding) {
  Allocations all;
  for (const Operation& operation : operations)
    for_each_named(operation, binding, [&](const Operation&, std::uint32_t, std::uint64_t address, bool) {
      all.push_back(order_at(address));
    });
  return all;
}

StaleAddresses::Allocations StaleAddresses::with_operation(const std::vector<Operation>& operations,
                                                           const Binding& binding, std::uint32_t index,
                                                           Allocations before) {
  std::size_t position = 0;
  for (std::uint32_t i = 0; i < operations.size(); ++i)
    for_each_named(operations[i], binding, [&](const Operation&, std::uint32_t, std::uint64_t address, bool) {
      if (i == index && position < before.size()) before[position] = order_at(address);
      ++position;
    });
  return before;
}

/// Judges by what is there now and was when the exec got it; else by what was freed; else by what lies before.
bool StaleAddresses::judge(const Operation& operation, std::uint64_t address, bool hidden, std::uint64_t before,
                           StaleAddress* stale) const {
  const bool kernel = launches_kernel(operation);
  const bool takes_host = with_kind(operation.signature.kind, [](auto kind) { return kind.takes_host_memory(); });
  const Block* const now = live_block(address);
  if (now != nullptr && (before == 0 || now->order == before)) {
    const int device = node_device_of(operation.signature);
    if (!kernel || now->kind != MemoryKind::kDevice || is_peer(device, now->device)) return false;
    stale->kind = StaleKind::kOtherDevice;
    stale->allocated_by = now->call_site;
    return true;
  }
  Range freed{0, 0, 0, 0};
  bool known = false;
  {
    const LockGuard guard(lock_);
    known = find(freed_, address, &freed) && (before == 0 || freed.order == before);
  }
  if (before != 0 || known) {
    // It may be the end of an allocation, which is sound.
    if (before == 0 && live_block(address - 1) != nullptr) return false;
    if (before == 0 && shared_memory().knows(address)) return false;  // somebody has mapped something there since
    if (before == 0 && takes_host && is_host_memory(address)) return false;
    stale->kind = now != nullptr                    ? StaleKind::kReused
                  : before == 0 && freed.order == 0 ? StaleKind::kUnmapped
                                                    : StaleKind::kFreed;
    stale->allocated_by = known ? freed.allocated_by : 0;
    stale->freed_by = known ? freed.freed_by : 0;
    return true;
  }
  if (hidden || takes_host) return false;
  if (live_block(address - 1) != nullptr || shared_memory().knows(address) || shared_memory().knows(address - 1))
    return false;
  const Block* const behind = block_before(address);
  stale->kind = behind != nullptr ? StaleKind::kBeyond : StaleKind::kNowhere;
  stale->allocated_by = behind != nullptr ? std::uint32_t{behind->call_site} : 0;
  return true;
}

std::vector<StaleAddress> StaleAddresses::look(const Recording& recording, const Binding& binding,
                                               const Allocations& named) {
  const std::uint64_t launch = launches_.fetch_add(1, std::memory_order_relaxed) + 1;
  std::vector<StaleAddress> all;
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < recording.operations.size(); ++i)
    for_each_named(recording.operations[i], binding,
                   [&](const Operation& operation, std::uint32_t argument, std::uint64_t address, bool hidden) {
                     const std::uint64_t before = next < named.size() ? named[next] : 0;
                     ++next;
                     StaleAddress stale;
                     if (address == 0 || !judge(operation, address, hidden, before, &stale)) return;
                     stale.graph = recording.number;
                     stale.operation = i;
                     stale.what = kind_name(operation.signature.kind);
                     stale.kernel = i < recording.kernels.size() ? recording.kernels[i] : nullptr;
                     stale.argument = argument;
                     stale.hidden = hidden;
                     stale.address = address;
                     stale.launch = launch;
                     all.push_back(stale);
                   });
  return all;
}

bool StaleAddresses::note(const StaleAddress& stale) {
  if (stale.kind == StaleKind::kBeyond || stale.kind == StaleKind::kNowhere) {
    // The runtime knows more: variables of modules, and memory that was allocated past the library.
    if (runtime_knows(stale.address)) return false;
    if (stale.kind == StaleKind::kNowhere && is_host_memory(stale.address)) return false;
  }
  const LockGuard guard(lock_);
  const auto known = std::find_if(found_.begin(), found_.end(), [&](const auto& each) { return each.same(stale); });
  if (known != found_.end()) {
    known->times += std::exchange(known->launch, stale.launch) != stale.launch ? 1 : 0;
    return false;
  }
  if (found_.size() >= kMostFound) return false;
  found_.push_back(stale);
  return true;
}

std::vector<StaleAddress> StaleAddresses::found() const {
  const LockGuard guard(lock_);
  return found_;
}

void say_stale(const StaleAddress& stale) {
  log_warn("graph %llu, operation %u (%s): %s %u is %s%s%s", static_cast<unsigned long long>(stale.graph),
           stale.operation, stale.kernel != nullptr ? stale.kernel : stale.what,
           stale.hidden ? "a word of argument" : "argument", stale.argument, text_of(stale.kind),
           site_text("; allocated by ", stale.allocated_by).c_str(), site_text("; freed by ", stale.freed_by).c_str());
  if (void (*const found)() noexcept = g_stale_found.load(std::memory_order_acquire)) found();
}

StaleAddresses& stale_addresses() noexcept {
  static auto* const all = new StaleAddresses;
  return *all;
}

}  // namespace graphpool
