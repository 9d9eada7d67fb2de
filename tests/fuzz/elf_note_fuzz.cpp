// elf_note_fuzz.cpp: ELF objects with AMDGPU notes, and the metadata map by itself.
#include "shim/kernel/code_object.h"
#include "tests/fuzz/kernel_fuzz.h"
#include "tests/support/code_images.h"

namespace graphpool {

std::vector<std::string> fuzz_seeds() {
  const std::string metadata = images::metadata(images::sample_kernels());
  const std::string note = images::note("AMDGPU", 32, metadata);
  return {metadata, images::elf(note), images::elf(note, true), images::elf(images::note("GNU", 3, "id") + note)};
}

}  // namespace graphpool

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::span<const std::byte> image(reinterpret_cast<const std::byte*>(data), bytes);
  graphpool::KernelSet kernels;
  if (graphpool::read_elf(image, &kernels) == graphpool::Status::kUnsupported) {
    (void)graphpool::read_metadata(image, &kernels);
  }
  graphpool::check(kernels);
  return 0;
}
