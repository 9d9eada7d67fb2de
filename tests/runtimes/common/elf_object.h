// elf_object.h: an ELF64 file in memory, every access checked against its size. Broken files throw std::runtime_error.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hipfront {

using Bytes = std::span<const std::byte>;

[[noreturn]] inline void broken(const std::string& what) { throw std::runtime_error("code object: " + what); }

class Elf {
 public:
  explicit Elf(Bytes bytes) : bytes_(bytes), header_(read<Elf64_Ehdr>(0)) {
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) broken("no ELF file");
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB)
      broken("not 64-bit little-endian");
    if (header_.e_shnum != 0 && header_.e_shentsize != sizeof(Elf64_Shdr)) broken("section headers of another size");
    for (unsigned i = 0; i < header_.e_shnum; ++i)
      sections_.push_back(read<Elf64_Shdr>(header_.e_shoff + i * sizeof(Elf64_Shdr)));
  }

  const Elf64_Ehdr& header() const { return header_; }
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }

  const Elf64_Shdr& section(std::size_t index) const {
    if (index >= sections_.size()) broken("section index out of range");
    return sections_[index];
  }
  Bytes content(const Elf64_Shdr& section) const {
    return section.sh_type == SHT_NOBITS ? Bytes() : slice(section.sh_offset, section.sh_size);
  }
  template <typename T>
  std::vector<T> table(const Elf64_Shdr& section) const {
    const Bytes data = content(section);
    std::vector<T> items(data.size() / sizeof(T));
    std::memcpy(items.data(), data.data(), items.size() * sizeof(T));
    return items;
  }
  std::string string(const Elf64_Shdr& strings, std::size_t offset) const {
    const Bytes data = content(strings);
    if (offset >= data.size()) broken("string out of range");
    const auto* begin = reinterpret_cast<const char*>(data.data()) + offset;
    return std::string(begin, strnlen(begin, data.size() - offset));
  }
  Bytes slice(std::size_t offset, std::size_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) broken("data out of range");
    return bytes_.subspan(offset, size);
  }
  template <typename T>
  T read(std::size_t offset) const {
    T value;
    std::memcpy(&value, slice(offset, sizeof value).data(), sizeof value);
    return value;
  }

 private:
  Bytes bytes_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Shdr> sections_;
};

/// The notes of an object by owner.
std::map<std::string, Bytes> read_notes(const Elf& elf);

/// The size of the ELF file that begins at the address, by its headers; 0 when it is none.
std::size_t elf_bytes(const void* image);

}  // namespace hipfront
