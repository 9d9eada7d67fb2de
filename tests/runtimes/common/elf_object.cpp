#include "common/elf_object.h"

#include <algorithm>
#include <cstdint>

namespace hipfront {

std::map<std::string, Bytes> read_notes(const Elf& elf) {
  std::map<std::string, Bytes> notes;
  for (const Elf64_Shdr& section : elf.sections()) {
    if (section.sh_type != SHT_NOTE) continue;
    const Bytes data = elf.content(section);
    for (std::size_t at = 0; at + sizeof(Elf64_Nhdr) <= data.size();) {
      Elf64_Nhdr header;
      std::memcpy(&header, data.data() + at, sizeof header);
      const std::size_t owner = at + sizeof header;
      const std::size_t body = owner + (std::size_t{header.n_namesz} + 3) / 4 * 4;
      if (body > data.size() || header.n_descsz > data.size() - body) broken("a note out of range");
      const auto* text = reinterpret_cast<const char*>(data.data() + owner);
      notes.emplace(std::string(text, strnlen(text, header.n_namesz)), data.subspan(body, header.n_descsz));
      at = body + (std::size_t{header.n_descsz} + 3) / 4 * 4;
    }
  }
  return notes;
}

std::size_t elf_bytes(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return 0;
  std::size_t end =
      std::max<std::size_t>(sizeof header, header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, static_cast<const std::byte*>(image) + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS) end = std::max<std::size_t>(end, section.sh_offset + section.sh_size);
  }
  return end;
}

}  // namespace hipfront
