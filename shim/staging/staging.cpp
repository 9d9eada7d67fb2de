#include "shim/staging/staging.h"

#include <algorithm>
#include <cstddef>

#include "policy/policy.h"
#include "shim/base/seeded_defect.h"
#include "shim/hip/next.h"
#include "shim/hip/process_policy.h"
#include "shim/hip/restore.h"
#include "shim/kernel/argument_layout.h"
#include "shim/memory/buffer_rules.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/shared_memory.h"
#include "shim/recording/operand_addresses.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {
namespace {

/// Why a graph of these operations may not work on other memory than the program's (rule 4); null: it may.
const char* why_not_moved(const std::vector<Operation>& operations) {
  const int device = node_device_of(operations.front().signature);
  for (const Operation& operation : operations) {
    const Signature& signature = operation.signature;
    if (const char* const reason = with_kind(signature.kind, [&](auto kind) { return kind.why_not_staged(signature); }))
      return reason;
    if (makes_node(signature.kind) && node_device_of(signature) != device) return "it works on several devices";
  }
  return nullptr;
}

/// The live block that an address lies in, if its rule stages it, or leaves that open and `with_open`. Null: none.
/// (why_not_staged() has excluded graphs that name memory of other processes.)
const Block* staged_block(std::uint64_t address, bool with_open) {
  const Block* const block = block_table().find(reinterpret_cast<const void*>(address));
  if (block == nullptr || !block->live() || block->kind != MemoryKind::kDevice) return nullptr;
  const BufferRule* const rule = rule_of(*block);
  const bool staged = rule != nullptr && (rule->stage == Stage::kAlways || (with_open && rule->stage == Stage::kAuto));
  return staged ? block : nullptr;
}

/// Whether a graph may write to memory there: a rule can say that it only reads.
bool may_be_written(const Block* block) {
  const BufferRule* const rule = block == nullptr ? nullptr : rule_of(*block);
  return rule == nullptr || rule->role != Role::kIn;
}
bool may_be_written(std::uint64_t address) {
  return address != 0 && may_be_written(block_table().find(reinterpret_cast<const void*>(address)));
}

}  // namespace

bool runtime_knows(std::uint64_t word) {
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 16, kEnd = std::uint64_t{1} << 47;
  if (word < kLeast || word >= kEnd) return false;
  hipPointerAttribute_t attributes{};
  const auto ask = [&] { return next().hipPointerGetAttributes(&attributes, reinterpret_cast<const void*>(word)); };
  return PrivateCalls::answered(ask) && attributes.devicePointer != nullptr;
}

bool any_hidden_word(const std::vector<Operation>& operations, const Binding& binding,
                     FunctionRef<bool(std::uint64_t word)> holds) {
  bool any = false;
  for_each_hidden_word(operations, binding,
                       [&](std::uint32_t, std::uint64_t word) { any = any || (word != 0 && holds(word)); });
  return any;
}

bool copies_out_whole(const BufferRule& rule) noexcept {
  const bool written = rule.role == Role::kInOut || rule.role == Role::kOut;
  return written && !rule.full && rule.range.offset_bytes == 0 && rule.range.length_bytes == 0;
}

void wholly_staged(const std::vector<Operation>& operations, const Binding& binding, std::vector<const char*>* bases) {
  const auto note = [bases](std::uint64_t address) {
    const Block* const block = address != 0 ? staged_block(address, true) : nullptr;
    if (block == nullptr || !copies_out_whole(*rule_of(*block))) return;
    const auto* const base = static_cast<const char*>(block->pointer());
    if (std::find(bases->begin(), bases->end(), base) == bases->end()) bases->push_back(base);
  };
  for_each_address(operations, binding, [&](std::uint32_t, std::uint64_t address, bool writes) {
    if (writes) note(address);
  });
  for_each_hidden_word(operations, binding, [&](std::uint32_t, std::uint64_t word) { note(word); });
}

bool staging_rules(const std::vector<Operation>& operations, const Binding& binding,
                   std::vector<std::uint32_t>* rules) {
  rules->clear();
  const auto stages = [](const BufferRule& rule) { return rule.stage != Stage::kNever; };
  if (std::none_of(policy().buffers.begin(), policy().buffers.end(), stages)) return false;
  bool any = false;
  for_each_address(operations, binding, [&](std::uint32_t, std::uint64_t address, bool) {
    const Block* const block = staged_block(address, true);
    rules->push_back(block == nullptr ? 0u : block->rule);
    any = any || block != nullptr;
  });
  return any;
}

const char* why_not_staged(const std::vector<Operation>& operations, const Binding& binding) {
  if (const char* const reason = why_not_moved(operations)) return reason;
  return reaches_shared_memory(operations, binding) ? kSharedMemory : nullptr;
}

bool reaches_shared_memory(const std::vector<Operation>& operations, const Binding& binding) {
  if (seeded_defect(Seeded::kExportedStaged)) return false;
  bool shared = false;
  for_each_address(operations, binding,
                   [&](std::uint32_t, std::uint64_t address, bool) { shared = shared || is_shared(address); });
  return shared || any_hidden_word(operations, binding, [](std::uint64_t word) { return is_shared(word); });
}

std::unique_ptr<StagePlan> StagePlan::make(const std::vector<Operation>& operations, const Binding& binding,
                                           bool with_open) {
  if (why_not_moved(operations) != nullptr) return nullptr;
  const int device = node_device_of(operations.front().signature);
  auto plan = std::make_unique<StagePlan>();
  plan->device_ = device;
  plan->with_open_ = with_open;
  std::vector<const Block*> blocks;
  bool one_device = true;
  bool all_overlap = true, writes_elsewhere = false;
  for_each_address(operations, binding, [&](std::uint32_t place, std::uint64_t address, bool writes) {
    const Block* const block = staged_block(address, with_open);
    if (block == nullptr) {
      writes_elsewhere = writes_elsewhere || (writes && may_be_written(address));
      return;
    }
    one_device = one_device && block->device == device;
    auto found = std::find(blocks.begin(), blocks.end(), block);
    if (found == blocks.end()) {
      const BufferRule& rule = *rule_of(*block);
      plan->add_buffer(block->bytes(), rule);
      all_overlap = all_overlap && rule.overlap;
      blocks.push_back(block);
      found = blocks.end() - 1;
    }
    plan->words_.push_back({place, static_cast<std::uint32_t>(found - blocks.begin()), address - block->address()});
  });
  plan->overlap_ = all_overlap && !writes_elsewhere;
  plan->overlap_refused_ = all_overlap && writes_elsewhere;
  return plan->buffer_bytes_.empty() || !one_device ? nullptr : std::move(plan);
}

void add_addresses(const std::vector<Operation>& operations, const Binding& binding,
                   std::vector<std::uint64_t>* addresses) {
  for_each_address(operations, binding,
                   [&](std::uint32_t, std::uint64_t address, bool) { addresses->push_back(address); });
  std::sort(addresses->begin(), addresses->end());
  addresses->erase(std::unique(addresses->begin(), addresses->end()), addresses->end());
}

std::unique_ptr<StagePlan> StagePlan::of_all_memory(const std::vector<Operation>& operations, const Binding& binding,
                                                    const std::vector<std::uint64_t>& more, std::vector<char*>* bases) {
  bases->clear();
  if (why_not_moved(operations) != nullptr) return nullptr;
  auto plan = std::make_unique<StagePlan>();
  plan->device_ = node_device_of(operations.front().signature);
  BufferRule whole;
  whole.role = Role::kInOut;
  /// Finds or adds the buffer at an address. Returns false if there can be none.
  const auto buffer_of = [&](std::uint64_t address, std::uint32_t* buffer) {
    const Block* const block = block_table().find(reinterpret_cast<const void*>(address));
    if (block == nullptr || !block->live() || block->kind != MemoryKind::kDevice || block->device != plan->device_ ||
        block->exported.load(std::memory_order_relaxed))
      return false;
    auto* const base = static_cast<char*>(block->pointer());
    const auto found = std::find(bases->begin(), bases->end(), base);
    *buffer = static_cast<std::uint32_t>(found - bases->begin());
    if (found != bases->end()) return true;
    bases->push_back(base);
    plan->add_buffer(block->bytes(), whole);
    return true;
  };
  bool all = true;
  for_each_address(operations, binding, [&](std::uint32_t place, std::uint64_t address, bool) {
    std::uint32_t buffer = 0;
    if (address == 0) return;
    all = all && buffer_of(address, &buffer);
    if (all) plan->words_.push_back({place, buffer, address - reinterpret_cast<std::uint64_t>((*bases)[buffer])});
  });
  if (!all || bases->empty()) return nullptr;
  std::uint32_t unused = 0;
  for (const std::uint64_t address : more) static_cast<void>(buffer_of(address, &unused));
  return plan;
}

void StagePlan::add_buffer(std::size_t bytes, const BufferRule& rule) {
  const auto buffer = static_cast<std::uint32_t>(buffer_bytes_.size());
  buffer_bytes_.push_back(bytes);
  open_ = open_ || rule.stage == Stage::kAuto;
  whole_.push_back(copies_out_whole(rule));
  sets_ = std::max<std::size_t>(sets_, rule.slots);
  // A buffer that is only written is copied in too, unless every byte is written: the others must survive (rule 4).
  if (rule.role == Role::kIn || rule.role == Role::kInOut || (rule.role == Role::kOut && !rule.full))
    copies_in_.push_back({buffer, 0, bytes});
  if (rule.role != Role::kInOut && rule.role != Role::kOut) return;
  const std::size_t offset = std::min<std::size_t>(rule.range.offset_bytes, bytes);
  const std::size_t rest = bytes - offset;
  const std::size_t length = rule.range.length_bytes == 0 ? rest : std::min<std::size_t>(rule.range.length_bytes, rest);
  if (length != 0) copies_out_.push_back({buffer, offset, length});
}

bool StagePlan::locate(const std::vector<Operation>& operations, const Binding& binding,
                       std::vector<char*>* bases) const {
  bases->assign(buffers(), nullptr);
  std::vector<const Block*> blocks(buffers(), nullptr);
  auto word = words_.begin();
  bool fits = true;
  for_each_address(operations, binding, [&](std::uint32_t place, std::uint64_t address, bool writes) {
    const Block* const block = staged_block(address, with_open_);
    if (word == words_.end() || word->place != place) {
      // An operand that was not staged must not be now, nor make launches depend on each other.
      fits = fits && block == nullptr && !(overlap_ && writes && may_be_written(address));
      return;
    }
    const Word& expected = *word++;
    if (block == nullptr || address - block->address() != expected.offset ||
        block->bytes() != buffer_bytes_[expected.buffer] || block->device != device_ ||
        (blocks[expected.buffer] != nullptr && blocks[expected.buffer] != block)) {
      fits = false;
      return;
    }
    blocks[expected.buffer] = block;
    (*bases)[expected.buffer] = static_cast<char*>(block->pointer());
  });
  // Two buffers that were different blocks must still be.
  std::sort(blocks.begin(), blocks.end());
  if (!fits || word != words_.end() || std::adjacent_find(blocks.begin(), blocks.end()) != blocks.end()) return false;
  // A word that cannot be moved must not reach a staged buffer, nor make launches depend on each other.
  return !any_hidden_word(operations, binding, [&](std::uint64_t address) {
    const Block* const block = block_table().find(reinterpret_cast<const void*>(address));
    if (block != nullptr && std::binary_search(blocks.begin(), blocks.end(), block)) return true;
    // Mappings of the program's, memory of other processes and variables are no blocks.
    const auto is_memory = [&] { return block != nullptr || shared_memory().knows(address) || runtime_knows(address); };
    return overlap_ && may_be_written(block) && is_memory();
  });
}

bool StagePlan::covers(const std::vector<Operation>& operations, const Binding& binding) const {
  auto word = words_.begin();
  bool covered = true;
  for_each_address(operations, binding, [&](std::uint32_t place, std::uint64_t address, bool) {
    if (word != words_.end() && word->place == place)
      ++word;
    else
      covered = covered && address == 0;
  });
  return covered;
}

Binding StagePlan::translated(const Binding& binding, const SlotSet& slots) const {
  std::vector<char*> bases;
  for (std::size_t i = 0; i < buffers(); ++i) bases.push_back(static_cast<char*>(slots.address(i)));
  return translated(binding, bases);
}

Binding StagePlan::translated(const Binding& binding, const std::vector<char*>& bases) const {
  Binding moved = binding;
  for (const Word& word : words_) {
    const std::uint64_t address = reinterpret_cast<std::uint64_t>(bases[word.buffer]) + word.offset;
    std::memcpy(moved.data() + word.place, &address, sizeof address);
  }
  return moved;
}

Binding StagePlan::canonical(const Binding& binding) const {
  Binding moved = binding;
  for (const Word& word : words_) std::memcpy(moved.data() + word.place, &word.offset, sizeof word.offset);
  return moved;
}

bool StagePlan::same_elsewhere(const Binding& a, const Binding& b) const noexcept {
  if (a.size() != b.size()) return false;
  std::size_t from = 0;
  const auto same_up_to = [&](std::size_t end) {
    return end == from || std::memcmp(a.data() + from, b.data() + from, end - from) == 0;
  };
  for (const Word& word : words_) {
    if (!same_up_to(word.place)) return false;
    from = word.place + sizeof word.offset;
  }
  return same_up_to(a.size());
}

hipError_t StagePlan::make_slots(std::unique_ptr<SlotSet>* slots) const {
  std::vector<SlotRequest> requests;
  for (const std::size_t bytes : buffer_bytes_) requests.push_back({bytes, device_});
  return SlotSet::create(requests, slots);
}

std::uint64_t StagePlan::bytes_of(const std::vector<Copy>& copies) noexcept {
  std::uint64_t bytes = 0;
  for (const Copy& copy : copies) bytes += copy.bytes;
  return bytes;
}

}  // namespace graphpool
