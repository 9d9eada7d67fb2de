// elf_image.h: reads the symbol tables of objects that the loader has mapped, in place.
//
// Why: next functions must be found without calling dlsym (next.h), and the coverage check must know what a runtime
// exports and what the program's objects import. Reads only what PT_DYNAMIC names; allocates nothing; throws nothing.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <string_view>

namespace graphpool {

class ElfImage {
 public:
  /// Views an object as dl_iterate_phdr reports it. valid() is false when it has no usable symbol table.
  explicit ElfImage(const dl_phdr_info& info) noexcept;

  bool valid() const noexcept { return symbols_ != nullptr && strings_ != nullptr; }
  std::string_view path() const noexcept { return path_; }
  std::string_view basename() const noexcept;
  /// The number in the object's own name: 6 of "libamdhip64.so.6"; 0 when it has none.
  unsigned version() const noexcept;
  std::uintptr_t text_begin() const noexcept { return text_begin_; }
  std::uintptr_t text_bytes() const noexcept { return text_end_ - text_begin_; }
  bool contains(const void* address) const noexcept;

  /// The address of a function or variable that this object itself exports by that name, or null.
  void* find_export(std::string_view name) const noexcept;

  /// Whether this object imports a symbol. Sets `file` to the library that the symbol's version is from; empty: it has
  /// none.
  bool imports(std::string_view name, std::string_view& file) const noexcept;

  /// Calls visit(name, address) for every function that a lookup without a version finds in this object.
  template <typename Visit>
  void for_each_function(Visit&& visit) const {
    const std::uint32_t end = count();
    for (std::uint32_t i = 1; i < end; ++i) {
      const ElfW(Sym)& symbol = symbols_[i];
      const bool hidden_version = versions_ != nullptr && (versions_[i] & kHiddenVersion) != 0;
      if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || hidden_version) continue;
      visit(std::string_view(strings_ + symbol.st_name), reinterpret_cast<void*>(base_ + symbol.st_value));
    }
  }

  /// Calls visit(name, is_import) for every symbol of .dynsym that has a name.
  template <typename Visit>
  void for_each_symbol(Visit&& visit) const {
    const std::uint32_t end = count();
    for (std::uint32_t i = 1; i < end; ++i) {
      const ElfW(Sym)& symbol = symbols_[i];
      const char* name = strings_ + symbol.st_name;
      if (*name != '\0') visit(std::string_view(name), symbol.st_shndx == SHN_UNDEF);
    }
  }

 private:
  static constexpr ElfW(Half) kHiddenVersion = 0x8000;

  struct Relocations {
    const ElfW(Rela) * begin = nullptr;
    std::size_t bytes = 0;
  };

  /// The number of symbols, or 0. The format does not tell it; it follows from a hash table or from the relocations.
  std::uint32_t count() const noexcept;
  static std::uint32_t named_by(const Relocations& relocations) noexcept;

  std::uintptr_t base_ = 0;
  std::string_view path_;
  std::uintptr_t text_begin_ = 0, text_end_ = 0;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  const char* soname_ = nullptr;
  const ElfW(Half) * versions_ = nullptr;
  const ElfW(Verneed) * needed_versions_ = nullptr;
  std::uint32_t hashed_symbols_ = 0;
  Relocations relocations_, plt_relocations_;
};

/// Calls visit(ElfImage) for every loaded object in load order until it returns true; returns whether one did.
template <typename Visit>
bool for_each_image(Visit&& visit) {
  return dl_iterate_phdr(
             [](dl_phdr_info* info, std::size_t, void* data) -> int {
               return (*static_cast<std::remove_reference_t<Visit>*>(data))(ElfImage(*info)) ? 1 : 0;
             },
             const_cast<void*>(static_cast<const void*>(&visit))) != 0;
}

struct CodeRange {
  std::uintptr_t begin = 0, bytes = 0;
};
/// The code of the program itself, which is never unloaded. Calls dl_iterate_phdr.
CodeRange program_code() noexcept;

/// A number that changes whenever an object is loaded.
std::uint64_t loaded_objects_epoch() noexcept;

}  // namespace graphpool
