// staging.h: decides which operands of a recording lie in staged buffers, and what a launch copies for them.
//
// A buffer is staged when a rule of the policy says so for its allocation. The exec then holds addresses inside a slot
// set (memory/slot_set.h); a launch copies the program's buffers in, replays, and copies out what the rule says the
// graph writes. Offsets inside a buffer and operands that overlap keep their relation, because a buffer is staged as a
// whole. A recording has a plan for each choice of rules that its operands' buffers fall under. Where the rule says
// `auto`, the graph has a second plan with that buffer, used while it pays (costs/stage_choice.h). A copy never leaves
// its buffer. Not staged are graphs with host operations, child graphs, events from outside, dependencies that the
// program has set, or work on several devices (rule 4). Nor are graphs with kernels of a communication library, or with
// an operand that other processes can reach (rules 21 and 42). Nor are bindings whose buffers do not have the recorded
// sizes, or overlap otherwise than recorded, or that have a word in a structure argument, or in one of unknown kind,
// that may be an address in one of the buffers, or, with `overlap`, in other memory of the program's that no rule calls
// `in`: such words cannot be moved. The library cannot see what a kernel finds by addresses in memory: the rule
// promises that every access goes through an argument.
//
// Threads: plans are immutable. Units: bytes.
#pragma once

#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/memory/slot_set.h"
#include "shim/recording/operation.h"

namespace graphpool {

struct BufferRule;

/// Whether the word is an address in memory that the runtime knows and the library may not, such as memory of
/// hipMallocAsync. Call it without a lock held.
bool runtime_knows(std::uint64_t word);

/// Whether a kernel argument that is a structure or of unknown kind has a word, not 0, for which `holds` is true.
bool any_hidden_word(const std::vector<Operation>& operations, const Binding& binding,
                     FunctionRef<bool(std::uint64_t word)> holds);

/// Whether launches copy the whole buffer out, although the rule does not say that the graph writes all of it.
bool copies_out_whole(const BufferRule& rule) noexcept;
/// Adds to *bases, each once, the buffers that these operations may write to and that launches may copy out whole.
void wholly_staged(const std::vector<Operation>& operations, const Binding& binding, std::vector<const char*>* bases);

/// Finds the rules by which a binding's buffers may be staged: the rule's number (Block::rule) for each address among
/// the operands, in order; 0: none. Returns false if all are 0. Bindings with the same rules share a plan.
bool staging_rules(const std::vector<Operation>& operations, const Binding& binding, std::vector<std::uint32_t>* rules);

inline constexpr const char* kSharedMemory = "memory that it names can be reached by other processes";
inline constexpr const char* kCommunicates = "it has kernels of a communication library";

/// Why a graph with this binding has to work on the program's own memory, whatever rules say; a literal. Null: it need
/// not. (Recording::communicates() is asked apart: it needs no binding.)
const char* why_not_staged(const std::vector<Operation>& operations, const Binding& binding);
/// Whether an operand, or a hidden word (any_hidden_word()), lies in memory that other processes can reach.
bool reaches_shared_memory(const std::vector<Operation>& operations, const Binding& binding);

/// Adds every address among the operands to *addresses, which is then sorted, each once.
void add_addresses(const std::vector<Operation>& operations, const Binding& binding,
                   std::vector<std::uint64_t>* addresses);

class StagePlan {
 public:
  /// A range of a buffer that is copied, at the same offset in the program's memory and in the slot.
  struct Copy {
    std::uint32_t buffer;
    std::size_t offset;
    std::size_t bytes;
  };

  /// Makes the plan by the rules of this binding. Null: none of its buffers is staged, one is of another device, or the
  /// graph may work on no other memory than the program's (rule 4).
  /// `with_open`: buffers whose rules leave it open (`stage = "auto"`) are staged as well as those that always are.
  static std::unique_ptr<StagePlan> make(const std::vector<Operation>& operations, const Binding& binding,
                                         bool with_open);

  /// Makes a plan to run a graph on copies (verify/both_ways.h), whatever rules say: every allocation that an operand
  /// names is a buffer, and behind those every other one that `more` names. *bases: where they are. Null: the graph may
  /// work on no other memory than the program's (rule 4); or no operand names memory, or one names other memory than
  /// the program's on the graph's device, or exported memory.
  static std::unique_ptr<StagePlan> of_all_memory(const std::vector<Operation>& operations, const Binding& binding,
                                                  const std::vector<std::uint64_t>& more, std::vector<char*>* bases);

  /// Finds the program's buffers in this binding. Returns false if the binding does not have the plan's shape.
  bool locate(const std::vector<Operation>& operations, const Binding& binding, std::vector<char*>* bases) const;

  /// The binding with every staged operand moved into the slots.
  Binding translated(const Binding& binding, const SlotSet& slots) const;
  /// The same into other memory.
  Binding translated(const Binding& binding, const std::vector<char*>& bases) const;
  /// The binding with every staged operand as its offset: equal for bindings that differ in the buffers only, and as
  /// good as any of them for translated().
  Binding canonical(const Binding& binding) const;

  /// Whether two bindings differ in staged operands only.
  bool same_elsewhere(const Binding& a, const Binding& b) const noexcept;

  /// Those of these buffers (locate()) that launches copy out whole.
  std::vector<const char*> whole(const std::vector<char*>& bases) const {
    std::vector<const char*> found;
    for (std::size_t i = 0; i < bases.size(); ++i)
      if (whole_[i]) found.push_back(bases[i]);
    return found;
  }

  hipError_t make_slots(std::unique_ptr<SlotSet>* slots) const;

  /// What a launch copies before and after the replay, and how many bytes that is.
  const std::vector<Copy>& copies_in() const noexcept { return copies_in_; }
  const std::vector<Copy>& copies_out() const noexcept { return copies_out_; }
  std::size_t copies() const noexcept { return copies_in_.size() + copies_out_.size(); }
  std::uint64_t copied_in_bytes() const noexcept { return bytes_of(copies_in_); }
  std::uint64_t copied_bytes() const noexcept { return copied_in_bytes() + bytes_of(copies_out_); }
  /// Whether it stages a buffer whose rule leaves it open.
  bool open() const noexcept { return open_; }

  /// How many slot sets the graph's ring has: the most that a rule of one of its buffers says.
  std::size_t sets() const noexcept { return sets_; }
  /// Whether launches are independent of each other: all rules say so, and all that the graph can write is staged (rule
  /// 3).
  bool overlap() const noexcept { return overlap_; }
  /// Whether the rules say `overlap`, but launches stay in order, because the graph may write memory that is not
  /// staged.
  bool overlap_refused() const noexcept { return overlap_refused_; }

  std::size_t buffers() const noexcept { return buffer_bytes_.size(); }
  /// Whether every address among the operands lies in a staged buffer, or is null.
  bool covers(const std::vector<Operation>& operations, const Binding& binding) const;

  std::size_t bytes(std::size_t buffer) const noexcept { return buffer_bytes_[buffer]; }
  /// Whether the program may look at the buffer after a launch: all but those of role temp.
  bool survives(std::size_t buffer) const noexcept {
    const auto recording = [buffer](const Copy& copy) { return copy.buffer == buffer; };
    return std::any_of(copies_in_.begin(), copies_in_.end(), recording) ||
           std::any_of(copies_out_.begin(), copies_out_.end(), recording);
  }
  int device() const noexcept { return device_; }

 private:
  struct Word {
    std::uint32_t place;  ///< in the binding
    std::uint32_t buffer;
    std::uint64_t offset;  ///< in the buffer
  };
  void add_buffer(std::size_t bytes, const BufferRule& rule);
  static std::uint64_t bytes_of(const std::vector<Copy>& copies) noexcept;

  std::vector<std::size_t> buffer_bytes_;
  std::vector<bool> whole_;  ///< copies_out_whole(), by buffer
  std::vector<Copy> copies_in_, copies_out_;
  std::vector<Word> words_;  ///< in the order of their places
  std::size_t sets_ = 1;
  bool with_open_ = false, open_ = false;
  bool overlap_ = false, overlap_refused_ = false;
  int device_ = 0;
};

}  // namespace graphpool
