// argument_layout.h: says where the explicit arguments of a kernel lie in its argument segment.
//
// Why: two captures of one kernel are compared, and its pointers rebound, argument by argument. The layout comes from
// the code object's metadata or from the runtime, so the bytes between arguments, which nobody sets, are never looked
// at.
// Invariants: arguments in rising offset order, none empty, none overlapping; a pointer is 8 bytes. Immutable.
// Threads: const functions from any thread. Lifetime: a layout of a LayoutPool is never destroyed. Two equal layouts of
// one pool are one object, so that layouts compare by address.
// Units: bytes, from the start of the argument segment. Not here: where layouts come from (code_object.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shim/base/status.h"

namespace graphpool {

enum class ArgumentKind : std::uint8_t {
  kByValue,        ///< bytes; a pointer inside a structure is one of these
  kGlobalBuffer,   ///< a device pointer
  kDynamicShared,  ///< OpenCL's local memory argument; HIP has none
  kOther,          ///< image, sampler, pipe, queue
  kUnknown,        ///< bytes or a pointer: the runtime, which was asked, tells no kinds
};

struct Argument {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  ArgumentKind kind = ArgumentKind::kByValue;

  bool operator==(const Argument&) const = default;
};

class ArgumentLayout {
 public:
  /// Larger segments are not believed: AMD's runtime gives a launch far less.
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  /// Whether these arguments keep the invariants above.
  static bool is_valid(std::span<const Argument> arguments) noexcept;

  /// Pre-condition: is_valid(arguments).
  explicit ArgumentLayout(std::vector<Argument> arguments, bool self_contained = true);

  std::span<const Argument> arguments() const noexcept { return arguments_; }

  /// Whether its kernels are known to reach no memory but through these arguments (KernelDescription::self_contained).
  bool self_contained() const noexcept { return self_contained_; }

  /// The explicit part of the segment: the end of the last argument.
  std::size_t bytes() const noexcept { return bytes_; }

  /// Copies the arguments of a launch's kernelParams (one pointer for each argument) to `segment`, which has bytes()
  /// bytes; the bytes between arguments become zero. kUnsupported: one is not plain bytes; kMalformed: a null pointer.
  Status pack(void* const* params, std::byte* segment) const noexcept {
    if (!plain_) return Status::kUnsupported;
    if (arguments_.empty()) return Status::kOk;
    if (params == nullptr) return Status::kMalformed;
    if (runs_.front().bytes != bytes_) std::memset(segment, 0, bytes_);
    // Nearly every argument is a pointer or an int: those are copied without a call.
    for (const Group& group : groups_) {
      std::byte* to = segment + group.offset;
      if (group.bytes == sizeof(std::uint64_t)) {
        if (!copy_group<std::uint64_t>(params, group.count, to)) return Status::kMalformed;
      } else if (group.bytes == sizeof(std::uint32_t)) {
        if (!copy_group<std::uint32_t>(params, group.count, to)) return Status::kMalformed;
      } else {
        for (std::uint32_t i = 0; i < group.count; ++i, to += group.bytes) {
          if (params[i] == nullptr) return Status::kMalformed;
          std::memcpy(to, params[i], group.bytes);
        }
      }
      params += group.count;
    }
    return Status::kOk;
  }

  /// Does the same from a launch's `extra`: buffer pointer, buffer size, end, in this order as HIP wants it.
  /// kMalformed: the list is anything else, or the buffer is shorter than bytes().
  Status pack_extra(void* const* extra, std::byte* segment) const noexcept;

  /// Whether all arguments of two segments are equal. Reads no byte between arguments.
  bool equal(const std::byte* a, const std::byte* b) const noexcept {
    for (const Run& run : runs_) {
      if (std::memcmp(a + run.offset, b + run.offset, run.bytes) != 0) return false;
    }
    return true;
  }

  /// Whether kernelParams holds the arguments of `segment`. Pre-condition: pack() of these params would succeed.
  bool equal_params(void* const* params, const std::byte* segment) const noexcept {
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (std::memcmp(params[i], segment + arguments_[i].offset, arguments_[i].bytes) != 0) return false;
    }
    return true;
  }

  /// Calls visit(argument_index, offset, word) for every pointer argument.
  template <typename Visit>
  void for_each_pointer(const std::byte* segment, Visit&& visit) const {
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i].kind != ArgumentKind::kGlobalBuffer) continue;
      visit(i, std::size_t{arguments_[i].offset}, load_word(segment + arguments_[i].offset));
    }
  }

  /// Calls visit(argument_index, offset, word) for every 8-byte word at a multiple of 8 inside an argument that is by
  /// value or of unknown kind: the places where a pointer may hide. A word may be anything.
  template <typename Visit>
  void for_each_value_word(const std::byte* segment, Visit&& visit) const {
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i].kind != ArgumentKind::kByValue && arguments_[i].kind != ArgumentKind::kUnknown) continue;
      const std::size_t end = std::size_t{arguments_[i].offset} + arguments_[i].bytes;
      for (std::size_t offset = (std::size_t{arguments_[i].offset} + 7) / 8 * 8; offset + 8 <= end; offset += 8) {
        visit(i, offset, load_word(segment + offset));
      }
    }
  }

 private:
  struct Run {
    std::uint32_t offset, bytes;
  };
  /// Arguments of the same size, without gaps between them.
  struct Group {
    std::uint32_t offset, bytes, count;
  };

  /// Copies the values of a group whose arguments have the size of a Word; false: one pointer is null.
  template <typename Word>
  static bool copy_group(void* const* params, std::uint32_t count, std::byte* to) noexcept {
    for (std::uint32_t i = 0; i < count; ++i, to += sizeof(Word)) {
      if (params[i] == nullptr) return false;
      std::memcpy(to, params[i], sizeof(Word));
    }
    return true;
  }

  static std::uint64_t load_word(const std::byte* address) noexcept {
    std::uint64_t word;
    std::memcpy(&word, address, sizeof word);
    return word;
  }

  std::vector<Argument> arguments_;
  std::vector<Run> runs_;      ///< the ranges without gaps that arguments take
  std::vector<Group> groups_;  ///< all arguments
  std::size_t bytes_ = 0;
  bool plain_ = true;
  bool self_contained_ = true;
};

/// Keeps one object for each distinct layout. Threads: its owner locks. Bounded: beyond kMaxLayouts new layouts are not
/// kept. Never destroyed with layouts in it, except in tests.
class LayoutPool {
 public:
  static constexpr std::size_t kMaxLayouts = std::size_t{1} << 16;

  /// Returns the layout of these arguments. Null: they are not valid, or the pool is full. Throws std::bad_alloc.
  const ArgumentLayout* intern(const std::vector<Argument>& arguments, bool self_contained = true);

  std::size_t size() const noexcept { return layouts_[0].size() + layouts_[1].size(); }

 private:
  struct Hash {
    std::size_t operator()(const std::vector<Argument>& arguments) const noexcept;
  };
  std::unordered_map<std::vector<Argument>, ArgumentLayout, Hash> layouts_[2];  ///< by self_contained
};

}  // namespace graphpool
