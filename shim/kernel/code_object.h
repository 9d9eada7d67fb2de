// code_object.h: finds the kernels, and their explicit arguments, in device code as programs hand it to HIP.
//
// Three forms (probe code_is_known): an ELF object with AMDGPU metadata notes (a code object of one architecture; also
// the CPU runtime's shared objects), an offload bundle of such entries, a compressed bundle. Entries without metadata
// (SPIR-V, CUDA, host) are passed over. Of a bundle the entry for the CPU runtime and those that serve a device of this
// process are read; all entries, if some device has none, or the devices are not known. Their kernels are joined by
// name, because AMD's argument layout does not depend on the architecture. If entries disagree all the same, the kernel
// is unknown. Pure parsing of untrusted bytes: no HIP call, no exception, the magic first, nothing read past what
// headers promise. Threads: any; there is no state. Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"
#include "shim/kernel/metadata.h"

namespace graphpool {

/// Larger images are not believed.
inline constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 33;

/// The architectures of this process's devices (hipDeviceProp_t::gcnArchName, such as "gfx90a:sramecc+:xnack-"), each
/// once. None: they are not known.
using Architectures = std::span<const std::string>;

/// Adds the kernels of an image of any of the three forms. kNotFound: well-formed, but nothing in it has metadata;
/// kUnsupported: another form, or a compressed bundle that is too large.
Status read_image(std::span<const std::byte> image, KernelSet* kernels, Architectures devices = {}) noexcept;

/// The same for a pointer without a size, as hipModuleLoadData takes it. Pre-condition: HIP has accepted the image, so
/// its headers tell the truth. Null is kUnsupported.
Status read_image(const void* image, KernelSet* kernels, Architectures devices = {}) noexcept;

/// These read one form each.
Status read_elf(std::span<const std::byte> image, KernelSet* kernels) noexcept;
Status read_bundle(std::span<const std::byte> image, KernelSet* kernels, Architectures devices = {}) noexcept;

struct BundleEntry {
  std::string_view id;  ///< points into the image
  std::span<const std::byte> code;
};

/// Finds the entries of an uncompressed bundle. kMalformed: the headers make no sense, or an entry is not in the image.
Status bundle_entries(std::span<const std::byte> image, std::vector<BundleEntry>* entries) noexcept;

/// The id of the entry with code for the CPU runtime.
inline constexpr std::string_view kCpuEntryId = "hipv4-x86_64-unknown-linux-gnu--cpu";

/// Whether an entry is code for a device of this architecture: for the same processor, and with each feature that the
/// entry fixes set in the same way.
bool entry_serves(std::string_view id, std::string_view architecture) noexcept;

}  // namespace graphpool
