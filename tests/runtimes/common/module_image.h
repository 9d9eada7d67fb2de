// module_image.h: what hipModuleLoadData and the registration of a fat binary are given: an ELF code object, an offload
// bundle, or a compressed one. Finds the entry for this runtime.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace hipfront {

class ModuleImage {
 public:
  /// `entry`: the id of the runtime's entry in an offload bundle.
  explicit ModuleImage(std::string_view entry) : entry_(entry) {}
  /// The image has no size of its own but what its headers say: it is trusted as HIP trusts it.
  /// hipErrorInvalidImage: none of the forms; hipErrorNoBinaryForGpu: a bundle without an entry for this runtime.
  hipError_t open(const void* image);
  std::span<const std::byte> object() const { return object_; }

 private:
  hipError_t open_bundle(const std::byte* bundle);
  hipError_t decompress(const std::byte* bundle);

  std::string_view entry_;
  std::vector<std::byte> unpacked_;
  std::span<const std::byte> object_;
};

}  // namespace hipfront
