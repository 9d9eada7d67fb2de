#include "shim/kernel/metadata.h"

#include <array>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "shim/kernel/msgpack_reader.h"

namespace graphpool {
namespace {

/// Where in the metadata a container lies. One that the library does not need is kSkipped, with all that it has.
enum class Place : std::uint8_t { kNowhere, kRoot, kKernels, kKernel, kArguments, kArgument, kSkipped };

/// Walks the metadata in one pass without building a tree: so a large count in a header costs nothing by itself.
class MetadataVisitor : public msgpack::null_visitor {
 public:
  explicit MetadataVisitor(KernelSet* kernels) : kernels_(kernels) {}

  bool start_map(std::uint32_t) { return enter(true); }
  bool start_array(std::uint32_t) { return enter(false); }
  bool end_map() { return leave(); }
  bool end_array() { return leave(); }

  bool start_map_key() {
    in_key_ = true;
    key_ = {};
    return true;
  }
  bool end_map_key() {
    in_key_ = false;
    return true;
  }

  bool visit_str(const char* text, std::uint32_t bytes) {
    const std::string_view value(text, bytes);
    if (in_key_) {
      if (place() != Place::kSkipped) key_ = value;
    } else if (place() == Place::kKernel && key_ == ".name") {
      name_ = value;
    } else if (place() == Place::kArgument && key_ == ".value_kind") {
      value_kind_ = value;
    }
    return place() != Place::kNowhere;
  }

  bool visit_positive_integer(std::uint64_t value) {
    if (!in_key_) {
      if (place() == Place::kKernel && key_ == ".kernarg_segment_size") segment_bytes_ = value;
      if (place() == Place::kArgument && key_ == ".offset") offset_ = value;
      if (place() == Place::kArgument && key_ == ".size") bytes_ = value;
    }
    return place() != Place::kNowhere;
  }

  bool complete() const noexcept { return complete_; }

 private:
  static constexpr std::size_t kMaxDepth = 32;

  Place place() const noexcept { return depth_ == 0 ? Place::kNowhere : places_[depth_ - 1]; }

  Place place_of_child(bool map) const noexcept {
    switch (place()) {
      case Place::kNowhere:
        return map ? Place::kRoot : Place::kSkipped;
      case Place::kRoot:
        return !map && !in_key_ && key_ == "amdhsa.kernels" ? Place::kKernels : Place::kSkipped;
      case Place::kKernels:
        return map ? Place::kKernel : Place::kSkipped;
      case Place::kKernel:
        return !map && !in_key_ && key_ == ".args" ? Place::kArguments : Place::kSkipped;
      case Place::kArguments:
        return map ? Place::kArgument : Place::kSkipped;
      case Place::kArgument:
      case Place::kSkipped:
        break;
    }
    return Place::kSkipped;
  }

  bool enter(bool map) {
    if (depth_ == kMaxDepth) return false;
    const Place child = place_of_child(map);
    if (depth_ == 0 && child != Place::kRoot) return false;
    places_[depth_++] = child;
    if (child == Place::kKernel) {
      kernel_ = {};
      name_ = {};
      segment_bytes_.reset();
    } else if (child == Place::kArgument) {
      offset_.reset();
      bytes_.reset();
      value_kind_ = {};
    }
    return true;
  }

  bool leave() {
    const Place left = place();
    --depth_;
    if (left == Place::kArgument) add_argument();
    if (left == Place::kKernel) add_kernel();
    if (left == Place::kRoot) complete_ = true;
    return true;
  }

  void add_argument() {
    if (value_kind_.starts_with("hidden_")) {
      // The host does something for the kernel, or the kernel allocates: it does more than its arguments say.
      for (const std::string_view more : {"hidden_hostcall_buffer", "hidden_printf_buffer", "hidden_heap_v1",
                                          "hidden_default_queue", "hidden_completion_action"})
        if (value_kind_ == more) kernel_.self_contained = false;
      return;
    }
    constexpr std::uint64_t kLimit = ArgumentLayout::kMaxBytes;
    if (!offset_ || !bytes_ || *offset_ > kLimit || *bytes_ > kLimit || value_kind_.empty()) {
      kernel_.known = false;
      return;
    }
    Argument argument{static_cast<std::uint32_t>(*offset_), static_cast<std::uint32_t>(*bytes_), ArgumentKind::kOther};
    if (value_kind_ == "by_value") argument.kind = ArgumentKind::kByValue;
    if (value_kind_ == "global_buffer") argument.kind = ArgumentKind::kGlobalBuffer;
    if (value_kind_ == "dynamic_shared_pointer") argument.kind = ArgumentKind::kDynamicShared;
    kernel_.arguments.push_back(argument);
  }

  void add_kernel() {
    if (name_.empty()) return;
    if (!ArgumentLayout::is_valid(kernel_.arguments) || !segment_bytes_) kernel_.known = false;
    if (kernel_.known && !kernel_.arguments.empty()) {
      const Argument& last = kernel_.arguments.back();
      if (std::uint64_t{last.offset} + last.bytes > *segment_bytes_) kernel_.known = false;
    }
    kernels_->add(std::string(name_), std::move(kernel_));
    kernel_ = {};
  }

  KernelSet* kernels_;
  std::array<Place, kMaxDepth> places_{};
  std::size_t depth_ = 0;
  bool in_key_ = false, complete_ = false;
  std::string_view key_;  ///< of the value being read; empty unless it is text

  KernelDescription kernel_;
  std::string_view name_, value_kind_;
  std::optional<std::uint64_t> segment_bytes_, offset_, bytes_;
};

}  // namespace

void KernelSet::add(std::string name, KernelDescription kernel) {
  if (!kernel.known) kernel.arguments.clear();
  const auto [there, added] = kernels_.try_emplace(std::move(name), std::move(kernel));
  if (added) return;
  KernelDescription& before = there->second;
  if (before.known != kernel.known || before.arguments != kernel.arguments) before = {.arguments = {}, .known = false};
  before.self_contained = before.self_contained && kernel.self_contained;
}

void KernelSet::note_variables() noexcept {
  for (auto& [name, kernel] : kernels_) kernel.self_contained = false;
}

const KernelDescription* KernelSet::find(std::string_view name) const noexcept {
  const auto there = kernels_.find(name);
  return there == kernels_.end() ? nullptr : &there->second;
}

Status read_metadata(std::span<const std::byte> note, KernelSet* kernels) noexcept {
  try {
    MetadataVisitor visitor(kernels);
    std::size_t offset = 0;
    const bool parsed = msgpack::parse(reinterpret_cast<const char*>(note.data()), note.size(), offset, visitor);
    return parsed && visitor.complete() ? Status::kOk : Status::kMalformed;
  } catch (const std::bad_alloc&) {
    return Status::kNoMemory;
  } catch (...) {
    return Status::kMalformed;  // msgpack throws for an extension of 4 GiB
  }
}

}  // namespace graphpool
