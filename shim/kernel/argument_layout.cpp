#include "shim/kernel/argument_layout.h"

namespace graphpool {
namespace {

// HIP_LAUNCH_PARAM_*: part of the ABI, the same in every release.
constexpr std::uintptr_t kParamEnd = 3, kParamBufferPointer = 1, kParamBufferSize = 2;

std::uintptr_t word_of(const void* pointer) noexcept { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

bool ArgumentLayout::is_valid(std::span<const Argument> arguments) noexcept {
  std::size_t end = 0;
  for (const Argument& argument : arguments) {
    if (argument.bytes == 0 || argument.offset < end) return false;
    end = std::size_t{argument.offset} + argument.bytes;
    if (end > kMaxBytes) return false;
    if (argument.kind == ArgumentKind::kGlobalBuffer && argument.bytes != sizeof(void*)) return false;
  }
  return true;
}

ArgumentLayout::ArgumentLayout(std::vector<Argument> arguments, bool self_contained)
    : arguments_(std::move(arguments)), self_contained_(self_contained) {
  for (const Argument& argument : arguments_) {
    if (!runs_.empty() && runs_.back().offset + runs_.back().bytes == argument.offset) {
      runs_.back().bytes += argument.bytes;
    } else {
      runs_.push_back({argument.offset, argument.bytes});
    }
    if (!groups_.empty() && groups_.back().bytes == argument.bytes &&
        groups_.back().offset + groups_.back().bytes * groups_.back().count == argument.offset)
      ++groups_.back().count;
    else
      groups_.push_back({argument.offset, argument.bytes, 1});
    plain_ = plain_ && argument.kind != ArgumentKind::kDynamicShared && argument.kind != ArgumentKind::kOther;
  }
  if (!arguments_.empty()) bytes_ = std::size_t{arguments_.back().offset} + arguments_.back().bytes;
}

Status ArgumentLayout::pack_extra(void* const* extra, std::byte* segment) const noexcept {
  if (!plain_) return Status::kUnsupported;
  if (extra == nullptr || word_of(extra[0]) != kParamBufferPointer || word_of(extra[2]) != kParamBufferSize ||
      word_of(extra[4]) != kParamEnd) {
    return Status::kMalformed;
  }
  const auto* buffer = static_cast<const std::byte*>(extra[1]);
  const void* size = extra[3];
  if (size == nullptr) return Status::kMalformed;
  std::size_t buffer_bytes;
  std::memcpy(&buffer_bytes, size, sizeof buffer_bytes);
  if (buffer_bytes < bytes_ || (buffer == nullptr && bytes_ != 0)) return Status::kMalformed;
  if (bytes_ == 0) return Status::kOk;
  std::memset(segment, 0, bytes_);
  for (const Run& run : runs_) std::memcpy(segment + run.offset, buffer + run.offset, run.bytes);
  return Status::kOk;
}

const ArgumentLayout* LayoutPool::intern(const std::vector<Argument>& arguments, bool self_contained) {
  if (!ArgumentLayout::is_valid(arguments)) return nullptr;
  auto& layouts = layouts_[self_contained ? 1 : 0];
  if (const auto known = layouts.find(arguments); known != layouts.end()) return &known->second;
  if (size() >= kMaxLayouts) return nullptr;
  return &layouts.try_emplace(arguments, arguments, self_contained).first->second;
}

std::size_t LayoutPool::Hash::operator()(const std::vector<Argument>& arguments) const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const Argument& argument : arguments) {
    const std::uint64_t word = (std::uint64_t{argument.offset} << 32 | argument.bytes) ^
                               (std::uint64_t{static_cast<std::uint8_t>(argument.kind)} << 56);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return static_cast<std::size_t>(hash);
}

}  // namespace graphpool
