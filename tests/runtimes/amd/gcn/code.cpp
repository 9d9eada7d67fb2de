#include "code.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "../kernels.h"
#include "../settings.h"
#include "wave.h"

namespace hsa_cpu::gcn {
namespace {

struct Images {
  std::mutex mutex;
  std::map<u64, std::unique_ptr<Image>> by_base;
};
Images& images() {
  static auto* const all = new Images;
  return *all;
}

std::mutex& decoding() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

const char* format_name(u32 word) {
  if ((word >> 31) == 0) return "vector";
  if ((word >> 30) == 2) return "scalar";
  constexpr const char* kNames[16] = {"scalar memory",
                                      "",
                                      "",
                                      "",
                                      "vector (VOP3)",
                                      "interpolation",
                                      "workgroup memory",
                                      "flat memory",
                                      "buffer",
                                      "",
                                      "typed buffer",
                                      "",
                                      "image",
                                      "",
                                      "",
                                      ""};
  return kNames[word >> 26 & 15];
}

void unknown(Wave& wave, const Instruction& instruction) { give_up(wave, instruction, "no such operation"); }

void next_page(Wave& wave, const Instruction& instruction) { jump(wave, instruction.address); }

void decode_here(Wave& wave, const Instruction& instruction) {
  wave.at = &instruction;
  auto& record = const_cast<Instruction&>(instruction);
  const std::scoped_lock guard(decoding());
  if (record.words.load(std::memory_order_relaxed) != 0) return;  // another thread was faster
  u32 code[2] = {0, 0};
  const Image& image = *wave.image;
  const std::size_t left = image.base + image.bytes - record.address;
  std::memcpy(code, reinterpret_cast<const void*>(record.address), left < sizeof code ? 4 : sizeof code);
  Execute run = nullptr;
  u32 words = decode(code, image.gfx90a, record, run);
  if (words == 0) {
    words = 1;
    run = unknown;
  }
  record.words.store(static_cast<u8>(words), std::memory_order_relaxed);
  record.run.store(run, std::memory_order_release);
}

}  // namespace

Page::Page(u64 address) {
  for (u32 word = 0; word < kPageWords + 2; ++word) {
    records[word].address = address + u64{word} * 4;
    records[word].run.store(word < kPageWords ? decode_here : next_page, std::memory_order_relaxed);
  }
}

Image::Image(u64 start, std::size_t size, bool newer, bool whole)
    : base(start),
      bytes(size),
      gfx90a(newer),
      whole_loads(whole),
      pages_(new std::atomic<Page*>[size / 4 / kPageWords + 1]()) {}
Image::~Image() {
  for (std::size_t index = 0; index <= bytes / 4 / kPageWords; ++index) delete pages_[index].load();
}

const Instruction* Image::at(u64 address) const {
  const u64 word = (address - base) / 4;
  std::atomic<Page*>& slot = pages_[word / kPageWords];
  Page* page = slot.load(std::memory_order_acquire);
  if (page == nullptr) {
    const std::scoped_lock guard(mutex_);
    page = slot.load(std::memory_order_relaxed);
    if (page == nullptr) {
      page = new Page(base + word / kPageWords * kPageWords * 4);
      slot.store(page, std::memory_order_release);
    }
  }
  return &page->records[word % kPageWords];
}

const Image* image_of(u64 address) {
  const std::scoped_lock guard(images().mutex);
  auto found = images().by_base.upper_bound(address);
  if (found == images().by_base.begin()) return nullptr;
  --found;
  return found->second->holds(address) ? found->second.get() : nullptr;
}

void jump(Wave& wave, u64 address) {
  if (wave.image == nullptr || !wave.image->holds(address)) {
    const Image* const image = image_of(address);
    if (image == nullptr || address % 4 != 0) {
      complain("kernel %s: goes on at %#lx, where no code is", wave.kernel, address);
      std::abort();
    }
    wave.image = image;
  }
  wave.at = wave.image->at(address);
}

void run_turn(Wave& wave, i32 instructions) {
  wave.budget = instructions;
  while (wave.budget-- > 0) {
    const Instruction& instruction = *wave.at;
    // Decoding stores the length first: who sees the function sees the length.
    const Execute run = instruction.run.load(std::memory_order_acquire);
    wave.at = &instruction + instruction.words.load(std::memory_order_relaxed);
    run(wave, instruction);
  }
}

void give_up(const Wave& wave, const Instruction& instruction, const char* why) {
  const u64 base = wave.image == nullptr ? 0 : wave.image->base;
  const char* const name =
      instruction.operation != nullptr ? instruction.operation->name : format_name(instruction.word[0]);
  complain("kernel %s: %s: %s, words %08x %08x at %#lx (%#lx of its code object)", wave.kernel, why, name,
           instruction.word[0], instruction.word[1], instruction.address, instruction.address - base);
  std::abort();
}

}  // namespace hsa_cpu::gcn

namespace hsa_cpu {

void code_loaded(const char* base, std::size_t bytes) {
  const auto start = reinterpret_cast<gcn::u64>(base);
  auto image = std::make_unique<gcn::Image>(start, bytes, settings().isa.rfind("gfx90a", 0) == 0,
                                            settings().isa.find("sramecc+") != std::string::npos);
  const std::scoped_lock guard(gcn::images().mutex);
  gcn::images().by_base[start] = std::move(image);
}

void code_unloaded(const char* base) {
  const std::scoped_lock guard(gcn::images().mutex);
  gcn::images().by_base.erase(reinterpret_cast<gcn::u64>(base));
}

}  // namespace hsa_cpu
