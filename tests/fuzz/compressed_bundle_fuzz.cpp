// compressed_bundle_fuzz.cpp: compressed offload bundles, and through read_image() the other forms too.
#include "shim/kernel/code_object.h"
#include "shim/kernel/compressed_bundle.h"
#include "tests/fuzz/kernel_fuzz.h"
#include "tests/support/code_images.h"

namespace graphpool {

std::vector<std::string> fuzz_seeds() {
  const std::string code = images::code_object(images::sample_kernels());
  const std::string bundle =
      images::bundle({{"hipv4-amdgcn-amd-amdhsa--gfx90a", code}, {"hipv4-amdgcn-amd-amdhsa--gfx942", code}});
  std::vector<std::string> seeds;
  for (const unsigned version : {1u, 2u, 3u}) {
    for (const bool zstd : {false, true}) seeds.push_back(images::compress(bundle, version, zstd));
  }
  return seeds;
}

}  // namespace graphpool

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::span<const std::byte> image(reinterpret_cast<const std::byte*>(data), bytes);
  static const std::string devices[] = {"gfx90a:sramecc+:xnack-"};
  for (const graphpool::Architectures known : {graphpool::Architectures(), graphpool::Architectures(devices)}) {
    graphpool::KernelSet kernels;
    (void)graphpool::read_image(image, &kernels, known);
    graphpool::check(kernels);
  }
  return 0;
}
