// loaded_words.h: makes kernels for tests from machine code that is given as 32-bit words.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "../kernels.h"

namespace hsa_cpu {

using Words = std::vector<std::uint32_t>;

/// A kernel as a loaded code object has it: a descriptor, then code.
class Loaded {
 public:
  explicit Loaded(const Words& code, std::uint32_t group_bytes = 0) : image_(kCode + code.size()) {
    constexpr std::uint32_t kUserScalars = 2 << 1, kGroupIdX = 1 << 7, kKernargPointer = 1 << 3,
                            kDenormals = 0xf0 << 12;
    image_[0] = group_bytes;
    image_[4] = kCode * 4;    // where the code begins
    image_[12] = kDenormals;  // COMPUTE_PGM_RSRC1
    image_[13] = kUserScalars | kGroupIdX;
    image_[14] = kKernargPointer;
    std::memcpy(&image_[kCode], code.data(), code.size() * 4);
    code_loaded(base(), image_.size() * 4);
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() { code_unloaded(base()); }

  hsa_status_t run(std::uint32_t items, std::uint32_t group, const void* arguments, const std::atomic<bool>& stop,
                   const Agent* agent = nullptr) const {
    hsa_kernel_dispatch_packet_t packet{};
    packet.workgroup_size_x = static_cast<std::uint16_t>(group);
    packet.workgroup_size_y = packet.workgroup_size_z = 1;
    packet.grid_size_x = items;
    packet.grid_size_y = packet.grid_size_z = 1;
    packet.kernel_object = reinterpret_cast<std::uint64_t>(base());
    packet.kernarg_address = const_cast<void*>(arguments);
    const Kernel kernel{"a_kernel", agent, packet.kernel_object, 16, 0, 0};
    return run_dispatch(packet, kernel, nullptr, stop);
  }
  hsa_status_t run(std::uint32_t items, std::uint32_t group, const void* arguments,
                   const Agent* agent = nullptr) const {
    static const std::atomic<bool> never{false};
    return run(items, group, arguments, never, agent);
  }

 private:
  static constexpr std::size_t kCode = 64;
  const char* base() const { return reinterpret_cast<const char*>(image_.data()); }
  Words image_;
};

}  // namespace hsa_cpu
