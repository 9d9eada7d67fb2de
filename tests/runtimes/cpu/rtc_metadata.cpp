#include "rtc_metadata.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "common/elf_object.h"

namespace cpuhip {
namespace {

using hipfront::broken;
using hipfront::Bytes;
using hipfront::Elf;

/// The prelude's Entry and Argument.
struct RawEntry {
  std::uint64_t address, run, arguments, count, launch_bound;
};
struct RawArgument {
  std::uint32_t offset, bytes, align, pointer;
};
constexpr std::string_view kEntryPrefix = "cpuhip_entry_";

/// A place in a relocatable object.
struct Place {
  std::size_t section = 0;
  std::uint64_t offset = 0;
};

class Relocatable {
 public:
  explicit Relocatable(Bytes bytes) : elf_(bytes) {
    if (elf_.header().e_type != ET_REL) broken("not relocatable");
    for (const Elf64_Shdr& section : elf_.sections()) {
      if (section.sh_type == SHT_SYMTAB) {
        symbols_ = elf_.table<Elf64_Sym>(section);
        strings_ = elf_.section(section.sh_link);
      } else if (section.sh_type == SHT_RELA) {
        for (const auto& rela : elf_.table<Elf64_Rela>(section)) relocations_[{section.sh_info, rela.r_offset}] = rela;
      }
    }
  }

  const std::vector<Elf64_Sym>& symbols() const { return symbols_; }
  std::string name(const Elf64_Sym& symbol) const { return elf_.string(strings_, symbol.st_name); }

  template <typename T>
  T read(Place place) const {
    const Elf64_Shdr& section = elf_.section(place.section);
    if (place.offset > section.sh_size || sizeof(T) > section.sh_size - place.offset) broken("data out of range");
    return elf_.read<T>(section.sh_offset + place.offset);
  }

  /// What the pointer at `place` points to; false for a null one.
  bool follow(Place place, Place* target) const {
    const auto found = relocations_.find({place.section, place.offset});
    if (found == relocations_.end()) return false;
    const Elf64_Sym& symbol = symbol_of(found->second);
    *target = {symbol.st_shndx, symbol.st_value + static_cast<std::uint64_t>(found->second.r_addend)};
    return true;
  }

  /// The name of the function or variable the pointer at `place` points to.
  std::string symbol_name(Place place) const {
    const auto found = relocations_.find({place.section, place.offset});
    if (found == relocations_.end()) broken("an entry without an address");
    const Elf64_Sym& direct = symbol_of(found->second);
    if (ELF64_ST_TYPE(direct.st_info) != STT_SECTION) return name(direct);
    const std::uint64_t value = static_cast<std::uint64_t>(found->second.r_addend);
    for (const Elf64_Sym& symbol : symbols_)
      if (symbol.st_shndx == direct.st_shndx && symbol.st_value == value &&
          (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC || ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT))
        return name(symbol);
    broken("an entry without a symbol");
  }

 private:
  const Elf64_Sym& symbol_of(const Elf64_Rela& rela) const {
    const std::size_t index = ELF64_R_SYM(rela.r_info);
    if (index >= symbols_.size()) broken("symbol index out of range");
    return symbols_[index];
  }

  Elf elf_;
  std::vector<Elf64_Sym> symbols_;
  Elf64_Shdr strings_{};
  std::map<std::pair<std::size_t, std::uint64_t>, Elf64_Rela> relocations_;
};

void write_note(std::ostringstream& out, const char* section, const char* owner, unsigned type, std::string_view body) {
  out << ".section " << section << ",\"a\",@note\n.balign 4\n.long 1f-0f, 3f-2f, " << type << "\n0: .asciz \"" << owner
      << "\"\n1: .balign 4\n2:";
  for (std::size_t i = 0; i < body.size(); ++i)
    out << (i % 32 == 0 ? "\n.byte " : ",") << static_cast<unsigned>(static_cast<unsigned char>(body[i]));
  out << "\n3: .balign 4\n";
}

}  // namespace

CompiledObject read_compiled_object(std::span<const std::byte> bytes) {
  const Relocatable object(bytes);
  CompiledObject result;
  std::map<std::size_t, Place> entries;
  for (const Elf64_Sym& symbol : object.symbols()) {
    const std::string name = object.name(symbol);
    if (name.starts_with(kEntryPrefix) && symbol.st_shndx != SHN_UNDEF)
      entries[std::stoul(name.substr(kEntryPrefix.size()))] = {symbol.st_shndx, symbol.st_value};
    if (symbol.st_shndx == SHN_UNDEF && (name == "printf" || name == "puts" || name == "putchar")) result.prints = true;
  }
  for (const auto& [index, place] : entries) {
    if (index != result.entries.size()) broken("entries out of order");
    const auto raw = object.read<RawEntry>(place);
    ObjectEntry entry;
    entry.name = object.symbol_name(place);
    Place arguments;
    entry.is_kernel = object.follow({place.section, place.offset + offsetof(RawEntry, run)}, &arguments);
    if (entry.is_kernel && raw.count != 0 &&
        !object.follow({place.section, place.offset + offsetof(RawEntry, arguments)}, &arguments))
      broken("an entry without its arguments");
    for (std::size_t i = 0; i < raw.count; ++i) {
      const auto argument = object.read<RawArgument>({arguments.section, arguments.offset + i * sizeof(RawArgument)});
      entry.arguments.push_back({argument.offset, argument.bytes, argument.pointer != 0});
      entry.args_align = std::max<std::size_t>(entry.args_align, argument.align);
    }
    if (raw.launch_bound != 0) entry.max_threads = static_cast<unsigned>(raw.launch_bound);
    // A __shared__ variable is a thread-local static of its kernel: _ZZ <encoding> E <name>.
    const std::string encoding =
        entry.name.starts_with("_Z") ? entry.name.substr(2) : std::to_string(entry.name.size()) + entry.name;
    for (const Elf64_Sym& symbol : object.symbols())
      if (ELF64_ST_TYPE(symbol.st_info) == STT_TLS && object.name(symbol).starts_with("_ZZ" + encoding + "E"))
        entry.static_shared_bytes += static_cast<unsigned>(symbol.st_size);
    result.entries.push_back(std::move(entry));
  }
  return result;
}

std::string notes_assembly(const CompiledObject& object) {
  std::vector<const ObjectEntry*> kernels;
  std::set<std::string_view> seen;  // an expression may name a kernel that was found before
  std::string names;
  for (const ObjectEntry& entry : object.entries) {
    names += entry.name;
    names += '\0';
    if (entry.is_kernel && seen.insert(entry.name).second) kernels.push_back(&entry);
  }
  const std::string metadata = hipfront::pack_metadata(kernels, "x86_64-unknown-linux-gnu--cpu", object.prints);
  std::ostringstream out;
  write_note(out, ".note.amdgpu", "AMDGPU", 32, metadata);
  write_note(out, ".note.cpuhip", "CPUHIP", 1, names);
  out << ".section .note.GNU-stack,\"\",@progbits\n";
  return out.str();
}

CodeObject read_code_object(std::span<const std::byte> bytes) {
  const Elf elf(bytes);
  CodeObject result;
  if (elf.header().e_machine != EM_X86_64 || elf.header().e_type != ET_DYN) return result;
  const auto notes = hipfront::read_notes(elf);
  const auto names = notes.find("CPUHIP"), metadata = notes.find("AMDGPU");
  if (names == notes.end() || metadata == notes.end()) return result;
  result.kernels = hipfront::parse_metadata(metadata->second);
  const std::string_view text(reinterpret_cast<const char*>(names->second.data()), names->second.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    result.entry_names.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  result.for_this_machine = true;
  return result;
}

}  // namespace cpuhip
