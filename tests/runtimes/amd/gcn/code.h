// code.h: loaded code, decoded an instruction at a time when it is first run.
//
// A page of decoded code has a record for each word of the image. A record that was not decoded yet runs a function
// that decodes it in place; so does, at a page's end, one that goes on in the next page. Pages go with their image.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "instruction.h"

namespace hsa_cpu::gcn {

constexpr u32 kPageWords = 256;

struct Page {
  explicit Page(u64 address);
  Instruction records[kPageWords + 2];  ///< an instruction of two words may end one word beyond
};

struct Image {
  Image(u64 base, std::size_t bytes, bool gfx90a, bool whole_loads);
  bool holds(u64 address) const { return address - base < bytes; }
  const Instruction* at(u64 address) const;

  const u64 base;
  const std::size_t bytes;
  const bool gfx90a;
  const bool whole_loads;  ///< loads of a half of a register clear the other, as with registers that have ECC

 private:
  std::unique_ptr<std::atomic<Page*>[]> pages_;
  mutable std::mutex mutex_;

 public:
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
};

/// The image that the address lies in; null where no code is loaded.
const Image* image_of(u64 address);

}  // namespace hsa_cpu::gcn
