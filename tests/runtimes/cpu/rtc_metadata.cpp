#include "rtc_metadata.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <msgpack.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace cpuhip {
namespace {

using Bytes = std::span<const std::byte>;

[[noreturn]] void broken(const std::string& what) { throw std::runtime_error("code object: " + what); }

/// An ELF64 file with every access checked against its size.
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

std::size_t kernarg_bytes(const ObjectEntry& kernel) {
  std::size_t end = 0;
  for (const KernelArgument& argument : kernel.arguments) end = std::max(end, argument.offset + argument.bytes);
  return (end + 3) / 4 * 4;
}

using Packer = msgpack::packer<msgpack::sbuffer>;

void pack_argument(Packer& packer, std::size_t offset, std::size_t bytes, const char* kind, bool global) {
  packer.pack_map(global ? 4 : 3);
  if (global) packer.pack(".address_space").pack("global");
  packer.pack(".offset").pack(offset).pack(".size").pack(bytes).pack(".value_kind").pack(kind);
}

/// The map of one kernel, keys in AMD's order; the figures that mean nothing on a CPU but must be there are 0.
void pack_kernel(Packer& packer, const ObjectEntry& kernel, bool prints) {
  struct Hidden {
    const char* kind;
    bool global;
  };
  static constexpr Hidden kHidden[] = {
      {"hidden_global_offset_x", false}, {"hidden_global_offset_y", false}, {"hidden_global_offset_z", false},
      {"hidden_hostcall_buffer", true},  {"hidden_none", true},             {"hidden_none", true},
      {"hidden_multigrid_sync_arg", true}};
  const std::size_t explicit_bytes = kernarg_bytes(kernel);
  std::size_t bytes = explicit_bytes, align = kernel.args_align;
  if (prints) {
    bytes = (explicit_bytes + 7) / 8 * 8 + sizeof(std::uint64_t) * std::size(kHidden);
    align = std::max<std::size_t>(align, 8);
  }
  packer.pack_map(13);
  packer.pack(".args").pack_array(static_cast<std::uint32_t>(kernel.arguments.size() + (prints ? std::size(kHidden) : 0)));
  for (const KernelArgument& argument : kernel.arguments)
    pack_argument(packer, argument.offset, argument.bytes, argument.pointer ? "global_buffer" : "by_value",
                  argument.pointer);
  if (prints) {
    std::size_t offset = (explicit_bytes + 7) / 8 * 8;
    for (const Hidden& hidden : kHidden) {
      pack_argument(packer, offset, sizeof(std::uint64_t), hidden.kind, hidden.global);
      offset += sizeof(std::uint64_t);
    }
  }
  packer.pack(".group_segment_fixed_size").pack(kernel.static_shared_bytes);
  packer.pack(".kernarg_segment_align").pack(align);
  packer.pack(".kernarg_segment_size").pack(bytes);
  packer.pack(".language").pack("OpenCL C");
  packer.pack(".language_version").pack(std::vector<int>{2, 0});
  packer.pack(".max_flat_workgroup_size").pack(kernel.max_threads);
  packer.pack(".name").pack(kernel.name);
  packer.pack(".private_segment_fixed_size").pack(0);
  packer.pack(".sgpr_count").pack(0);
  packer.pack(".symbol").pack(kernel.name + ".kd");
  packer.pack(".vgpr_count").pack(0);
  packer.pack(".wavefront_size").pack(64);
}

void write_note(std::ostringstream& out, const char* section, const char* owner, unsigned type, std::string_view body) {
  out << ".section " << section << ",\"a\",@note\n.balign 4\n.long 1f-0f, 3f-2f, " << type << "\n0: .asciz \"" << owner
      << "\"\n1: .balign 4\n2:";
  for (std::size_t i = 0; i < body.size(); ++i)
    out << (i % 32 == 0 ? "\n.byte " : ",") << static_cast<unsigned>(static_cast<unsigned char>(body[i]));
  out << "\n3: .balign 4\n";
}

/// The notes of a finished object by owner.
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

const msgpack::object* member(const msgpack::object& map, std::string_view key) {
  if (map.type != msgpack::type::MAP) return nullptr;
  for (const msgpack::object_kv& item : std::span(map.via.map.ptr, map.via.map.size))
    if (item.key.type == msgpack::type::STR && std::string_view(item.key.via.str.ptr, item.key.via.str.size) == key)
      return &item.val;
  return nullptr;
}

template <typename T>
T value_of(const msgpack::object& map, std::string_view key) {
  const msgpack::object* item = member(map, key);
  if (item == nullptr) broken("metadata without " + std::string(key));
  return item->as<T>();
}

std::span<const msgpack::object> array_of(const msgpack::object& map, std::string_view key) {
  const msgpack::object* item = member(map, key);
  if (item == nullptr || item->type != msgpack::type::ARRAY) broken("metadata without " + std::string(key));
  return {item->via.array.ptr, item->via.array.size};
}

std::vector<ObjectEntry> parse_metadata_or_throw(Bytes note) {
  const msgpack::unpack_limit limit(4096, 4096, note.size(), note.size(), note.size(), 16);
  const msgpack::object_handle handle = msgpack::unpack(reinterpret_cast<const char*>(note.data()), note.size(),
                                                        nullptr, nullptr, limit);
  std::vector<ObjectEntry> kernels;
  for (const msgpack::object& item : array_of(handle.get(), "amdhsa.kernels")) {
    ObjectEntry kernel;
    kernel.is_kernel = true;
    kernel.name = value_of<std::string>(item, ".name");
    kernel.args_align = value_of<std::size_t>(item, ".kernarg_segment_align");
    kernel.max_threads = value_of<unsigned>(item, ".max_flat_workgroup_size");
    kernel.static_shared_bytes = value_of<unsigned>(item, ".group_segment_fixed_size");
    for (const msgpack::object& argument : array_of(item, ".args")) {
      const auto kind = value_of<std::string>(argument, ".value_kind");
      if (kind.starts_with("hidden_")) continue;
      kernel.arguments.push_back({value_of<std::size_t>(argument, ".offset"), value_of<std::size_t>(argument, ".size"),
                                  kind == "global_buffer"});
    }
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

std::vector<ObjectEntry> parse_metadata(Bytes note) {
  try {
    return parse_metadata_or_throw(note);
  } catch (const std::exception& error) {
    broken(std::string("metadata: ") + error.what());
  }
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
  msgpack::sbuffer buffer;
  Packer packer(buffer);
  packer.pack_map(3);
  packer.pack("amdhsa.kernels").pack_array(static_cast<std::uint32_t>(kernels.size()));
  for (const ObjectEntry* kernel : kernels) pack_kernel(packer, *kernel, object.prints);
  packer.pack("amdhsa.target").pack("x86_64-unknown-linux-gnu--cpu");
  packer.pack("amdhsa.version").pack(std::vector<int>{1, 1});

  std::ostringstream out;
  write_note(out, ".note.amdgpu", "AMDGPU", 32, {buffer.data(), buffer.size()});
  write_note(out, ".note.cpuhip", "CPUHIP", 1, names);
  out << ".section .note.GNU-stack,\"\",@progbits\n";
  return out.str();
}

CodeObject read_code_object(std::span<const std::byte> bytes) {
  const Elf elf(bytes);
  CodeObject result;
  if (elf.header().e_machine != EM_X86_64 || elf.header().e_type != ET_DYN) return result;
  const auto notes = read_notes(elf);
  const auto names = notes.find("CPUHIP"), metadata = notes.find("AMDGPU");
  if (names == notes.end() || metadata == notes.end()) return result;
  result.kernels = parse_metadata(metadata->second);
  const std::string_view text(reinterpret_cast<const char*>(names->second.data()), names->second.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    result.entry_names.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  result.for_this_machine = true;
  return result;
}

std::vector<ObjectEntry> read_metadata(std::span<const std::byte> bytes) {
  const auto notes = read_notes(Elf(bytes));
  const auto metadata = notes.find("AMDGPU");
  if (metadata == notes.end()) broken("no AMDGPU note");
  return parse_metadata(metadata->second);
}

std::size_t elf_bytes(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return 0;
  std::size_t end = std::max<std::size_t>(sizeof header, header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, static_cast<const std::byte*>(image) + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS) end = std::max<std::size_t>(end, section.sh_offset + section.sh_size);
  }
  return end;
}

}  // namespace cpuhip
