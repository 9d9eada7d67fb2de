// bundle_fuzz.cpp: uncompressed offload bundles.
#include "shim/kernel/code_object.h"
#include "tests/fuzz/kernel_fuzz.h"
#include "tests/support/code_images.h"

namespace graphpool {

std::vector<std::string> fuzz_seeds() {
  const std::string code = images::code_object(images::sample_kernels());
  return {images::bundle({}), images::bundle({{"host-x86_64-unknown-linux", ""}}),
          images::bundle({{"host-x86_64-unknown-linux", ""},
                          {"hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", code},
                          {"hip-spirv64-amd-amdhsa--amdgcnspirv", "spirv"},
                          {std::string(kCpuEntryId), code}},
                         64)};
}

}  // namespace graphpool

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::span<const std::byte> image(reinterpret_cast<const std::byte*>(data), bytes);
  std::vector<graphpool::BundleEntry> entries;
  if (graphpool::bundle_entries(image, &entries) == graphpool::Status::kOk) {
    for (const graphpool::BundleEntry& entry : entries) {
      (void)graphpool::entry_serves(entry.id, "gfx90a:sramecc+:xnack-");
      if (!entry.code.empty() && (entry.code.data() < image.data() || entry.code.size() > image.size())) std::abort();
    }
  }
  graphpool::KernelSet kernels;
  (void)graphpool::read_bundle(image, &kernels);
  graphpool::check(kernels);
  return 0;
}
