#include "shim/compile/relocated_memory.h"

#include <elf.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "shim/base/units.h"

namespace graphpool {
namespace {

constexpr std::uintptr_t kPage = 4096;
/// Objects with less are left alone: those that this library needs while it waits are among them.
constexpr std::uintptr_t kLeastBytes = kMiB;
constexpr std::uintptr_t kPieceBytes = 64 * kKiB;

constexpr std::uintptr_t round_up(std::uintptr_t address) noexcept { return (address + kPage - 1) & ~(kPage - 1); }
constexpr std::uintptr_t round_down(std::uintptr_t address) noexcept { return address & ~(kPage - 1); }

/// Takes memory from the kernel: the heap is the program's, and would keep it.
template <typename Item>
Item* map_items(std::size_t count) noexcept {
  void* const memory = mmap(nullptr, count * sizeof(Item), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Item*>(memory);
}

/// Whether no code but the caller's can run in this process.
bool runs_alone(const Machine& machine) noexcept {
  char text[kStatusBytes];
  const ssize_t got = machine.read_file("/proc/self/status", text, sizeof text);
  if (got <= 0 || number_after({text, static_cast<std::size_t>(got)}, "Threads:") != 1) return false;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    // Numbers that the C library keeps for itself are refused. Their handlers are its own.
    if (sigaction(number, nullptr, &action) != 0) continue;
    if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) return false;
  }
  return true;
}

/// The relocations by which the loader wrote into an object.
struct Relocations {
  const ElfW(Rela) * begin = nullptr;
  const ElfW(Rela) * end = nullptr;
  const ElfW(Rela) * jumps_begin = nullptr;
  const ElfW(Rela) * jumps_end = nullptr;
};

/// Nothing where the object has none, or has tables of other forms.
std::optional<Relocations> find_relocations(const ElfW(Dyn) * dynamic, std::uintptr_t base) noexcept {
  // Most versions of the loader have made addresses of the offsets, but not all.
  const auto address = [base](std::uintptr_t value) { return value < base ? base + value : value; };
  std::uintptr_t table = 0, table_bytes = 0, jumps = 0, jumps_bytes = 0;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    if (dynamic->d_tag == DT_RELA) table = address(dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_RELASZ) table_bytes = dynamic->d_un.d_val;
    if (dynamic->d_tag == DT_JMPREL) jumps = address(dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_PLTRELSZ) jumps_bytes = dynamic->d_un.d_val;
    constexpr ElfW(Sxword) kRelr = 36;  // DT_RELR, newer than the headers of glibc 2.28
    if (dynamic->d_tag == DT_REL || dynamic->d_tag == DT_TEXTREL || dynamic->d_tag == kRelr) return std::nullopt;
  }
  if (table == 0) return std::nullopt;
  Relocations found;
  found.begin = reinterpret_cast<const ElfW(Rela)*>(table);
  found.end = found.begin + table_bytes / sizeof(ElfW(Rela));
  found.jumps_begin = reinterpret_cast<const ElfW(Rela)*>(jumps);
  found.jumps_end = found.jumps_begin + jumps_bytes / sizeof(ElfW(Rela));
  return found;
}

bool is_relative(const ElfW(Rela) & relocation) noexcept {
  return ELF64_R_TYPE(relocation.r_info) == R_X86_64_RELATIVE;
}

/// Returns the end of the relative ones, which come first, in the order of their places. Null: they do not.
const ElfW(Rela) * end_of_relative(const Relocations& all) noexcept {
  const ElfW(Rela)* const end = std::find_if_not(all.begin, all.end, is_relative);
  const bool ordered = std::is_sorted(
      all.begin, end, [](const ElfW(Rela) & one, const ElfW(Rela) & other) { return one.r_offset < other.r_offset; });
  return ordered && std::none_of(end, all.end, is_relative) ? end : nullptr;
}

/// The table of an object, up to the page in which its .dynamic begins. Empty: it has none, or a small one.
struct Table {
  std::uintptr_t begin = 0, end = 0;
  const ElfW(Dyn) * dynamic = nullptr;
};
Table table_of(const dl_phdr_info& info) noexcept {
  Table table;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    const std::uintptr_t begin = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_DYNAMIC) table.dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
    if (segment.p_type != PT_GNU_RELRO) continue;
    table.begin = round_up(begin);
    table.end = round_down(begin + std::min(segment.p_memsz, segment.p_filesz));
  }
  const auto dynamic = round_down(reinterpret_cast<std::uintptr_t>(table.dynamic));
  if (dynamic >= table.begin && dynamic < table.end) table.end = dynamic;
  if (table.dynamic == nullptr || table.end < table.begin + kLeastBytes) return {};
  return table;
}

}  // namespace

std::size_t RelocatedMemory::drop(const Machine& machine) noexcept {
  if (tried_) return 0;
  tried_ = true;
  if (!runs_alone(machine)) return 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* self) {
        static_cast<RelocatedMemory*>(self)->drop_object(*info);
        return 0;
      },
      this);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < range_count_; ++i) bytes += ranges_[i].end - ranges_[i].begin;
  return bytes;
}

void RelocatedMemory::drop_object(const dl_phdr_info& info) noexcept {
  const Table table = table_of(info);
  if (table.dynamic == nullptr || range_count_ == kMostRanges) return;
  const std::optional<Relocations> all = find_relocations(table.dynamic, info.dlpi_addr);
  if (!all.has_value()) return;
  Range range{info.dlpi_addr, table.begin, table.end, all->begin, end_of_relative(*all), nullptr, 0, 0};
  if (range.relative_end == nullptr) return;

  const auto others = static_cast<std::size_t>(all->end - range.relative_end + (all->jumps_end - all->jumps_begin));
  range.word_bytes = std::max<std::size_t>(1, others) * sizeof(Word);
  range.words = map_items<Word>(std::max<std::size_t>(1, others));
  if (range.words == nullptr) return;
  const auto keep = [&range](const ElfW(Rela) & relocation) {
    const std::uintptr_t place = range.base + relocation.r_offset;
    if (place < range.begin || place >= range.end) return;
    auto* const word = reinterpret_cast<std::uint64_t*>(place);
    range.words[range.word_count++] = {word, *word};
  };
  std::for_each(range.relative_end, all->end, keep);
  std::for_each(all->jumps_begin, all->jumps_end, keep);
  std::sort(range.words, range.words + range.word_count,
            [](const Word& one, const Word& other) { return one.place < other.place; });

  void* const scratch = map_items<char>(kPieceBytes);
  std::uintptr_t end = range.begin;
  // Writable until it is restored, because restore() must not fail.
  if (scratch != nullptr &&
      mprotect(reinterpret_cast<void*>(range.begin), range.end - range.begin, PROT_READ | PROT_WRITE) == 0) {
    while (end < range.end) {
      const std::uintptr_t piece_end = std::min(end + kPieceBytes, range.end);
      if (!drop_piece(range, end, piece_end, scratch)) break;
      end = piece_end;
    }
    mprotect(reinterpret_cast<void*>(end), range.end - end, PROT_READ);
  }
  if (scratch != nullptr) munmap(scratch, kPieceBytes);
  range.end = end;
  if (range.begin == range.end)
    munmap(range.words, range.word_bytes);
  else
    ranges_[range_count_++] = range;
}

/// Returns false, and leaves the piece as it was, where it cannot be dropped or does not come out the same.
bool RelocatedMemory::drop_piece(const Range& range, std::uintptr_t begin, std::uintptr_t end, void* scratch) noexcept {
  void* const piece = reinterpret_cast<void*>(begin);
  const std::size_t bytes = end - begin;
  std::memcpy(scratch, piece, bytes);
  if (madvise(piece, bytes, MADV_DONTNEED) != 0) return false;
  rebuild(range, begin, end);
  if (std::memcmp(scratch, piece, bytes) == 0 && madvise(piece, bytes, MADV_DONTNEED) == 0) return true;
  std::memcpy(piece, scratch, bytes);
  return false;
}

void RelocatedMemory::rebuild(const Range& range, std::uintptr_t begin, std::uintptr_t end) noexcept {
  const ElfW(Rela)* relocation =
      std::lower_bound(range.relative_begin, range.relative_end, begin - range.base,
                       [](const ElfW(Rela) & one, std::uintptr_t offset) { return one.r_offset < offset; });
  for (; relocation != range.relative_end && range.base + relocation->r_offset < end; ++relocation)
    *reinterpret_cast<std::uint64_t*>(range.base + relocation->r_offset) =
        range.base + static_cast<std::uint64_t>(relocation->r_addend);
  const Word* word = std::lower_bound(
      range.words, range.words + range.word_count, begin,
      [](const Word& one, std::uintptr_t place) { return reinterpret_cast<std::uintptr_t>(one.place) < place; });
  for (; word != range.words + range.word_count && reinterpret_cast<std::uintptr_t>(word->place) < end; ++word)
    *word->place = word->value;
}

void RelocatedMemory::restore() noexcept {
  for (std::size_t i = 0; i < range_count_; ++i) {
    const Range& range = ranges_[i];
    rebuild(range, range.begin, range.end);
    mprotect(reinterpret_cast<void*>(range.begin), range.end - range.begin, PROT_READ);
    munmap(range.words, range.word_bytes);
  }
  range_count_ = 0;
}

}  // namespace graphpool
