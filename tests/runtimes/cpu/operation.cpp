// operation.cpp: what each kind of device work checks and does. Eager and captured work both come through here.
// Checks of validate() are those HIP makes when a call is made; those of execute() stand for the page tables of a GPU:
// all devices share the process's address space here, so who may touch what is asked before the work starts.
#include "operation.h"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "api.h"
#include "device.h"
#include "graph.h"
#include "kernel.h"
#include "memory.h"

namespace cpuhip {
namespace {

template <typename... Bodies>
struct Overloaded : Bodies... {
  using Bodies::operator()...;
};
template <typename... Bodies>
Overloaded(Bodies...) -> Overloaded<Bodies...>;

/// Bytes from the first to behind the last one of a box.
std::size_t span(std::size_t width, std::size_t height, std::size_t pitch, std::size_t depth, std::size_t slice) {
  if (width == 0 || height == 0 || depth == 0) return 0;
  return ((depth - 1) * slice + height - 1) * pitch + width;
}
std::size_t dst_span(const CopyWork& work) {
  return span(work.width, work.height, work.dst_pitch, work.depth, work.dst_slice);
}
std::size_t src_span(const CopyWork& work) {
  return span(work.width, work.height, work.src_pitch, work.depth, work.src_slice);
}
std::size_t span(const FillWork& work) {
  return span(work.width * work.element_size, work.height, work.pitch, work.depth, work.slice);
}

enum class Operand { Inside, Outside, Unknown };

/// Where a range lies in the memory the runtime knows; mappings are checked by execute(): neighbours may be one range.
Operand place(const void* address, std::size_t bytes) {
  AllocationInfo info;
  if (!find_allocation(address, &info)) return owned_range(address) ? Operand::Outside : Operand::Unknown;
  if (info.kind == MemoryKind::Mapped) return Operand::Inside;
  const std::size_t before =
      static_cast<std::size_t>(static_cast<const char*>(address) - static_cast<char*>(info.base));
  return bytes <= info.bytes - before ? Operand::Inside : Operand::Outside;
}

hipError_t validate_copy(const CopyWork& work) {
  if (work.kind < hipMemcpyHostToHost || work.kind > hipMemcpyDefault) return hipErrorInvalidMemcpyDirection;
  if (work.width == 0 || work.height == 0 || work.depth == 0) return hipSuccess;
  if (work.dst == nullptr || work.src == nullptr) return hipErrorInvalidValue;
  if (work.height > 1 || work.depth > 1) {
    if (work.dst_pitch < work.width || work.src_pitch < work.width) return hipErrorInvalidPitchValue;
  }
  const Operand dst = place(work.dst, dst_span(work)), src = place(work.src, src_span(work));
  if (dst == Operand::Outside || src == Operand::Outside) return hipErrorInvalidValue;
  const bool both_plain = dst == Operand::Unknown && src == Operand::Unknown;
  if (both_plain && work.kind != hipMemcpyHostToHost && work.kind != hipMemcpyDefault) return hipErrorInvalidValue;
  return hipSuccess;
}

hipError_t validate_fill(const FillWork& work) {
  if (work.width == 0 || work.height == 0 || work.depth == 0) return hipSuccess;
  if (work.dst == nullptr || (work.element_size != 1 && work.element_size != 2 && work.element_size != 4)) {
    return hipErrorInvalidValue;
  }
  if ((work.height > 1 || work.depth > 1) && work.pitch < work.width * work.element_size) {
    return hipErrorInvalidPitchValue;
  }
  return place(work.dst, span(work)) == Operand::Inside ? hipSuccess : hipErrorInvalidValue;
}

hipError_t validate_kernel(const KernelWork& work) {
  if (!work.kernel) return hipErrorInvalidDeviceFunction;
  return check_launch(*work.kernel, work.grid, work.block, work.shared_bytes);
}

hipError_t run(const CopyWork& work, Device& device) {
  if (work.width == 0 || work.height == 0 || work.depth == 0) return hipSuccess;
  if (!accessible(work.dst, dst_span(work), device, true, Use::Copy) ||
      !accessible(work.src, src_span(work), device, false, Use::Copy)) {
    return hipErrorIllegalAddress;
  }
  for (std::size_t slice = 0; slice < work.depth; ++slice) {
    char* dst = static_cast<char*>(work.dst) + slice * work.dst_slice * work.dst_pitch;
    const char* src = static_cast<const char*>(work.src) + slice * work.src_slice * work.src_pitch;
    for (std::size_t row = 0; row < work.height; ++row) {
      std::memmove(dst + row * work.dst_pitch, src + row * work.src_pitch, work.width);
    }
  }
  return hipSuccess;
}

template <typename Element>
void fill_row(char* row, unsigned value, std::size_t count) {
  // Fills of HIP need no alignment.
  const auto element = static_cast<Element>(value);
  for (std::size_t index = 0; index < count; ++index)
    std::memcpy(row + index * sizeof element, &element, sizeof element);
}

hipError_t run(const FillWork& work, Device& device) {
  if (work.width == 0 || work.height == 0 || work.depth == 0) return hipSuccess;
  if (!accessible(work.dst, span(work), device, true)) return hipErrorIllegalAddress;
  for (std::size_t slice = 0; slice < work.depth; ++slice) {
    for (std::size_t row = 0; row < work.height; ++row) {
      char* place = static_cast<char*>(work.dst) + (slice * work.slice + row) * work.pitch;
      switch (work.element_size) {
        case 1:
          std::memset(place, static_cast<int>(work.value & 0xff), work.width);
          break;
        case 2:
          fill_row<std::uint16_t>(place, work.value, work.width);
          break;
        default:
          fill_row<std::uint32_t>(place, work.value, work.width);
          break;
      }
    }
  }
  return hipSuccess;
}

/// A kernel may be given null and the end of an allocation: it will not touch them if it is right.
bool may_be_given(const char* pointer, const Device& device) {
  return pointer == nullptr || accessible(pointer, 1, device, false) || accessible(pointer - 1, 1, device, false);
}

/// Quirk lazy_peers: operands that can be seen are given to the device first; what hides inside other arguments must
/// have been.
hipError_t grant_operands(const KernelWork& work, const Device& device) {
  const auto word_at = [&](std::size_t offset) {
    std::uintptr_t word = 0;
    std::memcpy(&word, work.args.data() + offset, sizeof word);
    return word;
  };
  for (const KernelArgument& argument : work.kernel->arguments)
    if (argument.pointer) grant_lazily(reinterpret_cast<const void*>(word_at(argument.offset)), device);
  for (const KernelArgument& argument : work.kernel->arguments) {
    if (argument.pointer) continue;
    const std::size_t end = argument.offset + argument.bytes;
    for (std::size_t at = (argument.offset + 7) / 8 * 8; at + sizeof(std::uintptr_t) <= end; at += 8)
      if (!reached_lazily(word_at(at), device)) return hipErrorIllegalAddress;
  }
  return hipSuccess;
}

hipError_t run(const KernelWork& work, Device& device) {
  if (quirks().lazy_peers) {
    if (const hipError_t result = grant_operands(work, device); result != hipSuccess) return result;
  }
  for (const KernelArgument& argument : work.kernel->arguments) {
    if (!argument.pointer || argument.offset + sizeof(void*) > work.args.size()) continue;
    const char* pointer = nullptr;
    std::memcpy(&pointer, work.args.data() + argument.offset, sizeof pointer);
    if (!may_be_given(pointer, device)) return hipErrorIllegalAddress;
  }
  run_kernel(work);
  return hipSuccess;
}

hipError_t run(const HostWork& work, Device&) {
  work.fn(work.user);
  return hipSuccess;
}

std::uint64_t load(const void* address, unsigned bytes) {
  if (bytes == 4) return __atomic_load_n(static_cast<const std::uint32_t*>(address), __ATOMIC_ACQUIRE);
  return __atomic_load_n(static_cast<const std::uint64_t*>(address), __ATOMIC_ACQUIRE);
}

// A value that begins in an allocation ends in a page of it: it is aligned.
hipError_t run(const WriteValueWork& work, Device& device) {
  if (!accessible(work.address, 1, device, true)) return hipErrorIllegalAddress;
  if (work.bytes == 4) {
    __atomic_store_n(static_cast<std::uint32_t*>(work.address), static_cast<std::uint32_t>(work.value),
                     __ATOMIC_RELEASE);
  } else {
    __atomic_store_n(static_cast<std::uint64_t*>(work.address), work.value, __ATOMIC_RELEASE);
  }
  return hipSuccess;
}

bool reached(const WaitValueWork& work) {
  const std::uint64_t value = load(work.address, work.bytes) & work.mask;
  switch (work.flags) {
    case hipStreamWaitValueGte:
      return value >= work.value;
    case hipStreamWaitValueEq:
      return value == work.value;
    case hipStreamWaitValueAnd:
      return (value & work.value) != 0;
    default:
      return (~(value | work.value) & work.mask) != 0;
  }
}

hipError_t run(const WaitValueWork& work, Device& device) {
  if (!accessible(work.address, 1, device, false)) return hipErrorIllegalAddress;
  // Somebody else writes the value, at a time nobody tells: look often first, then seldom.
  constexpr int kQuickLooks = 64;
  for (int looks = 0; !reached(work); ++looks) {
    const timespec pause{0, looks < kQuickLooks ? 1'000 : 50'000};
    nanosleep(&pause, nullptr);
  }
  return hipSuccess;
}

}  // namespace

hipError_t validate(const Operation& operation, Device&) {
  return std::visit(Overloaded{
                        [](const KernelWork& work) { return validate_kernel(work); },
                        [](const CopyWork& work) { return validate_copy(work); },
                        [](const FillWork& work) { return validate_fill(work); },
                        [](const HostWork& work) { return work.fn != nullptr ? hipSuccess : hipErrorInvalidValue; },
                        [](const auto& work) { return work.address != nullptr ? hipSuccess : hipErrorInvalidValue; },
                    },
                    operation);
}

hipError_t execute(const Operation& operation, Device& device) {
  return std::visit([&](const auto& work) { return run(work, device); }, operation);
}

}  // namespace cpuhip
