// staging.h: which operands of a recording lie in staged buffers, and what a launch copies for them.
//
// A buffer is staged when a rule of the policy says so for its allocation. The exec then holds addresses inside a slot
// set (memory/slot_set.h); a launch copies the program's buffers in, replays, and copies out what the rule says the
// graph writes. Offsets inside a buffer and operands that overlap keep their relation, because a buffer is staged as a
// whole. Not staged: graphs with host operations or work on several devices (rule 4), and bindings whose buffers do not
// have the recorded sizes, or overlap otherwise than recorded. A pointer inside a structure argument cannot be seen:
// the rule promises that every access goes through an operand of its own.
//
// Threads: plans are immutable. Units: bytes.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "shim/capture/operation.h"
#include "shim/memory/slot_set.h"

namespace graphpool {

class StagePlan {
 public:
  struct Buffer {
    std::size_t bytes = 0;
    bool copy_in = true;
    bool copy_out = true;
    std::size_t out_offset = 0, out_bytes = 0;
  };

  /// Null when nothing in the recording is staged.
  static std::unique_ptr<StagePlan> make(const std::vector<Operation>& operations, const Binding& binding);

  /// The program's buffers in this binding, or false when it is not the shape of the plan.
  bool locate(const std::vector<Operation>& operations, const Binding& binding, std::vector<char*>* bases) const;

  /// The binding with every staged operand moved into the slots.
  Binding translated(const Binding& binding, const SlotSet& slots) const;

  hipError_t make_slots(std::unique_ptr<SlotSet>* slots) const;

  /// The copies around a replay, enqueued in the program's stream. Adds the bytes copied to *bytes.
  hipError_t copy_in(const std::vector<char*>& bases, const SlotSet& slots, hipStream_t stream,
                     std::uint64_t* bytes) const;
  hipError_t copy_out(const std::vector<char*>& bases, const SlotSet& slots, hipStream_t stream,
                      std::uint64_t* bytes) const;

  /// Whether every address among the operands lies in a staged buffer, or is null.
  bool covers(const std::vector<Operation>& operations, const Binding& binding) const;

  std::size_t buffers() const noexcept { return buffers_.size(); }
  std::size_t bytes(std::size_t buffer) const noexcept { return buffers_[buffer].bytes; }
  /// Whether the program may look at the buffer after a launch: all but those of role temp.
  bool survives(std::size_t buffer) const noexcept { return buffers_[buffer].copy_in || buffers_[buffer].copy_out; }
  int device() const noexcept { return device_; }

 private:
  struct Word {
    std::uint32_t place;  ///< in the binding
    std::uint32_t buffer;
    std::uint64_t offset;  ///< in the buffer
  };
  std::vector<Buffer> buffers_;
  std::vector<Word> words_;  ///< in the order of their places
  int device_ = 0;
};

}  // namespace graphpool
