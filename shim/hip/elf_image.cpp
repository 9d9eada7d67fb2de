#include "shim/hip/elf_image.h"

#include <algorithm>
#include <charconv>

namespace graphpool {
namespace {

/// The number of symbols a GNU hash table covers: the end of its last chain. Only 1 where an object exports nothing,
/// whatever it imports.
std::uint32_t gnu_hash_symbols(const std::uint32_t* table) noexcept {
  const std::uint32_t buckets = table[0], first = table[1], bloom_words = table[2];
  const auto* bucket = table + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < buckets; ++i) last = bucket[i] > last ? bucket[i] : last;
  if (last < first) return first;
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

}  // namespace

ElfImage::ElfImage(const dl_phdr_info& info) noexcept : base_(info.dlpi_addr), path_(info.dlpi_name) {
  const ElfW(Dyn)* dynamic = nullptr;
  text_begin_ = UINTPTR_MAX;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (segment.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(base_ + segment.p_vaddr);
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
      const std::uintptr_t begin = base_ + segment.p_vaddr;
      if (begin < text_begin_) text_begin_ = begin;
      if (begin + segment.p_memsz > text_end_) text_end_ = begin + segment.p_memsz;
    }
  }
  if (text_end_ == 0) text_begin_ = 0;
  if (dynamic == nullptr) return;
  // glibc relocates these entries for ordinary objects but not for the vDSO, whose values are offsets.
  const auto address_of = [this](ElfW(Addr) value) { return value < base_ ? base_ + value : value; };
  ElfW(Xword) soname_at = 0;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    switch (dynamic->d_tag) {
      case DT_SYMTAB:
        symbols_ = reinterpret_cast<const ElfW(Sym)*>(address_of(dynamic->d_un.d_ptr));
        break;
      case DT_STRTAB:
        strings_ = reinterpret_cast<const char*>(address_of(dynamic->d_un.d_ptr));
        break;
      case DT_RELA:
        relocations_.begin = reinterpret_cast<const ElfW(Rela)*>(address_of(dynamic->d_un.d_ptr));
        break;
      case DT_RELASZ:
        relocations_.bytes = dynamic->d_un.d_val;
        break;
      case DT_JMPREL:
        plt_relocations_.begin = reinterpret_cast<const ElfW(Rela)*>(address_of(dynamic->d_un.d_ptr));
        break;
      case DT_PLTRELSZ:
        plt_relocations_.bytes = dynamic->d_un.d_val;
        break;
      case DT_VERSYM:
        versions_ = reinterpret_cast<const ElfW(Half)*>(address_of(dynamic->d_un.d_ptr));
        break;
      case DT_VERNEED:
        needed_versions_ = reinterpret_cast<const ElfW(Verneed)*>(address_of(dynamic->d_un.d_ptr));
        break;
      case DT_HASH: {
        const std::uint32_t count = reinterpret_cast<const std::uint32_t*>(address_of(dynamic->d_un.d_ptr))[1];
        if (count > hashed_symbols_) hashed_symbols_ = count;
        break;
      }
      case DT_GNU_HASH: {
        const std::uint32_t count =
            gnu_hash_symbols(reinterpret_cast<const std::uint32_t*>(address_of(dynamic->d_un.d_ptr)));
        if (count > hashed_symbols_) hashed_symbols_ = count;
        break;
      }
      case DT_SONAME:
        soname_at = dynamic->d_un.d_val;
        break;
      default:
        break;
    }
  }
  if (soname_at != 0 && strings_ != nullptr) soname_ = strings_ + soname_at;
}

std::uint32_t ElfImage::named_by(const Relocations& relocations) noexcept {
  std::uint32_t count = 0;
  for (std::size_t i = 0; relocations.begin != nullptr && i < relocations.bytes / sizeof(ElfW(Rela)); ++i) {
    const auto symbol = static_cast<std::uint32_t>(ELF64_R_SYM(relocations.begin[i].r_info));
    if (symbol >= count) count = symbol + 1;
  }
  return count;
}

std::uint32_t ElfImage::count() const noexcept {
  if (!valid()) return 0;
  return hashed_symbols_ > 1 ? hashed_symbols_ : std::max(named_by(relocations_), named_by(plt_relocations_));
}

std::string_view ElfImage::basename() const noexcept {
  const std::size_t slash = path_.rfind('/');
  return slash == std::string_view::npos ? path_ : path_.substr(slash + 1);
}

unsigned ElfImage::version() const noexcept {
  const std::string_view name = soname_ != nullptr ? soname_ : basename();
  constexpr std::string_view kEnding = ".so.";
  const std::size_t ending = name.rfind(kEnding);
  unsigned number = 0;
  if (ending != std::string_view::npos)
    static_cast<void>(std::from_chars(name.data() + ending + kEnding.size(), name.data() + name.size(), number));
  return number;
}

bool ElfImage::contains(const void* address) const noexcept {
  return reinterpret_cast<std::uintptr_t>(address) - text_begin_ < text_bytes();
}

void* ElfImage::find_export(std::string_view name) const noexcept {
  const std::uint32_t end = count();
  for (std::uint32_t i = 1; i < end; ++i) {
    const ElfW(Sym)& symbol = symbols_[i];
    if (symbol.st_shndx != SHN_UNDEF && name == strings_ + symbol.st_name)
      return reinterpret_cast<void*>(base_ + symbol.st_value);
  }
  return nullptr;
}

bool ElfImage::imports(std::string_view name, std::string_view& file) const noexcept {
  const std::uint32_t end = count();
  file = {};
  for (std::uint32_t i = 1; i < end; ++i) {
    if (symbols_[i].st_shndx != SHN_UNDEF || name != strings_ + symbols_[i].st_name) continue;
    const auto* needed = versions_ != nullptr ? needed_versions_ : nullptr;
    while (needed != nullptr && file.empty()) {
      const auto* const bytes = reinterpret_cast<const char*>(needed);
      const auto* version = reinterpret_cast<const ElfW(Vernaux)*>(bytes + needed->vn_aux);
      for (std::uint32_t left = needed->vn_cnt; left > 0; --left) {
        if (version->vna_other == (versions_[i] & ~kHiddenVersion)) file = strings_ + needed->vn_file;
        version = reinterpret_cast<const ElfW(Vernaux)*>(reinterpret_cast<const char*>(version) + version->vna_next);
      }
      needed = needed->vn_next != 0 ? reinterpret_cast<const ElfW(Verneed)*>(bytes + needed->vn_next) : nullptr;
    }
    return true;
  }
  return false;
}

CodeRange program_code() noexcept {
  CodeRange code;
  for_each_image([&code](const ElfImage& first) {
    code = {first.text_begin(), first.text_bytes()};
    return true;
  });
  return code;
}

std::uint64_t loaded_objects_epoch() noexcept {
  std::uint64_t epoch = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) -> int {
        *static_cast<std::uint64_t*>(data) = info->dlpi_adds;
        return 1;
      },
      &epoch);
  return epoch;
}

}  // namespace graphpool
