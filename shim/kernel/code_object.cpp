#include "shim/kernel/code_object.h"

#include <elf.h>

#include <algorithm>
#include <new>

#include "shim/base/image_reader.h"
#include "shim/kernel/compressed_bundle.h"

namespace graphpool {
namespace {

constexpr std::string_view kBundleMagic = "__CLANG_OFFLOAD_BUNDLE__";
constexpr std::uint64_t kMaxEntries = 4096, kMaxIdBytes = 4096;
constexpr std::string_view kNoteOwner = "AMDGPU";
constexpr std::uint32_t kMetadataNote = 32;  // NT_AMDGPU_METADATA

constexpr std::uint64_t round_up_note(std::uint64_t offset, std::uint64_t align) noexcept {
  return (offset + align - 1) / align * align;
}

/// Sums up what reading several parts has led to: any trouble, else whether one of them had metadata.
class Outcome {
 public:
  void add(Status status) noexcept {
    if (status == Status::kOk) {
      found_ = true;
    } else if (status != Status::kNotFound && status != Status::kUnsupported) {
      trouble_ = status;
    }
  }
  Status status() const noexcept {
    if (trouble_ != Status::kOk) return trouble_;
    return found_ ? Status::kOk : Status::kNotFound;
  }

 private:
  bool found_ = false;
  Status trouble_ = Status::kOk;
};

/// Notes are {u32 name size, u32 description size, u32 type}, name, description, each padded to the alignment.
void read_notes(std::span<const std::byte> notes, std::uint64_t align, KernelSet* kernels, Outcome* outcome) noexcept {
  const ImageReader reader(notes);
  std::uint64_t offset = 0;
  Elf64_Nhdr note;
  while (reader.read(offset, &note)) {
    const std::uint64_t name = offset + sizeof note;
    const std::uint64_t description = round_up_note(name + note.n_namesz, align);
    if (!reader.contains(name, note.n_namesz) || !reader.contains(description, note.n_descsz)) {
      outcome->add(Status::kMalformed);
      return;
    }
    std::string_view owner = reader.text(name, note.n_namesz);
    owner = owner.substr(0, owner.find('\0'));
    if (owner == kNoteOwner && note.n_type == kMetadataNote) {
      outcome->add(read_metadata(reader.part(description, note.n_descsz), kernels));
    }
    offset = round_up_note(description + note.n_descsz, align);
  }
}

bool is_elf(const ImageReader& reader) noexcept { return reader.has_text(0, {ELFMAG, SELFMAG}); }

/// Whether the object is 64-bit little endian and has headers of the known sizes. Anything else is no device code.
bool is_usable(const Elf64_Ehdr& header) noexcept {
  return header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB &&
         (header.e_phnum == 0 || header.e_phentsize == sizeof(Elf64_Phdr)) &&
         (header.e_shnum == 0 || header.e_shentsize == sizeof(Elf64_Shdr));
}

bool section_at(const ImageReader& reader, const Elf64_Ehdr& header, std::uint64_t index,
                Elf64_Shdr* section) noexcept {
  return index < header.e_shnum && reader.contains(header.e_shoff, 0) &&
         reader.read(header.e_shoff + index * sizeof *section, section);
}

/// Whether a section holds nothing but __hip_cuid_*: a byte that hipcc and hipRTC give each translation unit, from HIP
/// 6 on, and that no code touches. All of its bytes have to be of symbols with such a name.
bool has_only_unit_marks(const ImageReader& reader, const Elf64_Ehdr& header, std::uint64_t which,
                         std::uint64_t bytes) noexcept {
  constexpr std::string_view kMark = "__hip_cuid_";
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr table, names;
    if (!section_at(reader, header, i, &table)) return false;
    if (table.sh_type != SHT_DYNSYM) continue;
    if (!section_at(reader, header, table.sh_link, &names)) return false;
    std::uint64_t marks = 0;
    for (std::uint64_t offset = 0; offset + sizeof(Elf64_Sym) <= table.sh_size; offset += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      if (!reader.contains(table.sh_offset, offset) || !reader.read(table.sh_offset + offset, &symbol)) return false;
      if (symbol.st_shndx != which) continue;
      if (symbol.st_size != 1 || !reader.contains(names.sh_offset, symbol.st_name) ||
          !reader.has_text(names.sh_offset + symbol.st_name, kMark))
        return false;
      ++marks;
    }
    return marks == bytes;
  }
  return false;
}

/// Whether the object may have variables that its code changes. In an object of AMD's each writable section holds
/// variables, except the dynamic section, padding, and marks of translation units. A shared object for the CPU always
/// has writable sections: there only exported variables count. Returns true if the object has no sections, because
/// nothing tells then.
bool may_have_variables(const ImageReader& reader, const Elf64_Ehdr& header) noexcept {
  if (header.e_shnum == 0) return true;
  constexpr Elf64_Half kAmdGpu = 224;
  Elf64_Shdr names{};
  const bool named = section_at(reader, header, header.e_shstrndx, &names);
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    if (!section_at(reader, header, i, &section)) return true;
    if (header.e_machine == kAmdGpu) {
      const bool data = section.sh_type == SHT_PROGBITS || section.sh_type == SHT_NOBITS;
      constexpr std::string_view kPadding = ".relro_padding";
      const bool padding = named && reader.has_text(names.sh_offset + section.sh_name, kPadding);
      if (data && !padding && (section.sh_flags & SHF_WRITE) != 0 && section.sh_size != 0 &&
          !has_only_unit_marks(reader, header, i, section.sh_size))
        return true;
    } else if (section.sh_type == SHT_DYNSYM) {
      for (std::uint64_t offset = 0; offset + sizeof(Elf64_Sym) <= section.sh_size; offset += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        Elf64_Shdr home;
        if (!reader.contains(section.sh_offset, offset) || !reader.read(section.sh_offset + offset, &symbol))
          return true;
        if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx == SHN_UNDEF) continue;
        if (!section_at(reader, header, symbol.st_shndx, &home)) return true;
        constexpr std::string_view kOnceWritten = ".data.rel.ro";
        const bool fixed = named && reader.has_text(names.sh_offset + home.sh_name, kOnceWritten);
        if (!fixed && (home.sh_flags & SHF_WRITE) != 0) return true;
      }
    }
  }
  return false;
}

Status read_elf_notes(const ImageReader& reader, const Elf64_Ehdr& header, KernelSet* kernels) noexcept {
  Outcome outcome;
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!reader.contains(header.e_phoff, 0) || !reader.read(header.e_phoff + i * sizeof segment, &segment) ||
        (segment.p_type == PT_NOTE && !reader.contains(segment.p_offset, segment.p_filesz))) {
      outcome.add(Status::kMalformed);
      break;
    }
    if (segment.p_type != PT_NOTE) continue;
    read_notes(reader.part(segment.p_offset, segment.p_filesz), segment.p_align == 8 ? 8 : 4, kernels, &outcome);
  }
  if (outcome.status() != Status::kNotFound) return outcome.status();
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {  // objects that were never linked have only sections
    Elf64_Shdr section;
    if (!reader.contains(header.e_shoff, 0) || !reader.read(header.e_shoff + i * sizeof section, &section) ||
        (section.sh_type == SHT_NOTE && !reader.contains(section.sh_offset, section.sh_size))) {
      return Status::kMalformed;
    }
    if (section.sh_type != SHT_NOTE) continue;
    read_notes(reader.part(section.sh_offset, section.sh_size), section.sh_addralign == 8 ? 8 : 4, kernels, &outcome);
  }
  return outcome.status();
}

/// Raises *end to offset + bytes. Returns false if an image cannot reach that far.
bool reach(std::uint64_t offset, std::uint64_t bytes, std::uint64_t* end) noexcept {
  if (offset > kMaxImageBytes || bytes > kMaxImageBytes - offset) return false;
  *end = std::max(*end, offset + bytes);
  return true;
}

/// How far an ELF object reaches, by its headers; 0 if they make no sense. Reads only the headers.
std::uint64_t promised_elf_bytes(const std::byte* image) noexcept {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  std::uint64_t end = sizeof header;
  if (!is_usable(header) || !reach(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr), &end) ||
      !reach(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), &end)) {
    return 0;
  }
  const ImageReader headers({image, static_cast<std::size_t>(end)});
  Elf64_Phdr segment;
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    if (!headers.read(header.e_phoff + i * sizeof segment, &segment)) return 0;
    if (!reach(segment.p_offset, segment.p_filesz, &end)) return 0;
  }
  Elf64_Shdr section;
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    if (!headers.read(header.e_shoff + i * sizeof section, &section)) return 0;
    if (section.sh_type != SHT_NOBITS && !reach(section.sh_offset, section.sh_size, &end)) return 0;
  }
  return end;
}

/// The same for an uncompressed bundle: header after header, then the entries.
std::uint64_t promised_bundle_bytes(const std::byte* image) noexcept {
  std::uint64_t count, end = kBundleMagic.size() + sizeof count;
  std::memcpy(&count, image + kBundleMagic.size(), sizeof count);
  if (count > kMaxEntries) return 0;
  std::uint64_t offset = end;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t entry[3];  // offset, size, length of the id that follows
    std::memcpy(entry, image + offset, sizeof entry);
    if (entry[2] > kMaxIdBytes) return 0;
    offset += sizeof entry + entry[2];
    if (!reach(offset, 0, &end) || !reach(entry[0], entry[1], &end)) return 0;
  }
  return end;
}

/// "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+" -> "gfx90a:xnack+".
std::string_view target_of(std::string_view id) noexcept {
  const std::size_t dashes = id.rfind("--");
  return dashes == std::string_view::npos ? std::string_view{} : id.substr(dashes + 2);
}

std::string_view next_feature(std::string_view* features) noexcept {
  const std::string_view first = features->substr(0, features->find(':'));
  features->remove_prefix(std::min(first.size() + 1, features->size()));
  return first;
}

bool has_feature(std::string_view features, std::string_view wanted) noexcept {
  while (!features.empty()) {
    if (next_feature(&features) == wanted) return true;
  }
  return false;
}

bool serves_any(std::string_view id, Architectures devices) noexcept {
  return std::any_of(devices.begin(), devices.end(),
                     [id](const std::string& device) { return entry_serves(id, device); });
}

/// Leaves out entries that serve no device, but not the CPU runtime's. Leaves out none if some device has no entry of
/// its own, as its code may be generic.
void keep_what_serves(Architectures devices, std::vector<BundleEntry>* entries) noexcept {
  const auto has_own = [&](const std::string& device) {
    return std::any_of(entries->begin(), entries->end(),
                       [&](const BundleEntry& entry) { return entry_serves(entry.id, device); });
  };
  if (devices.empty() || !std::all_of(devices.begin(), devices.end(), has_own)) return;
  std::erase_if(*entries, [devices](const BundleEntry& entry) {
    return entry.id != kCpuEntryId && !serves_any(entry.id, devices);
  });
}

Status read_entries(const std::vector<BundleEntry>& entries, KernelSet* kernels) noexcept {
  Outcome outcome;
  for (const BundleEntry& entry : entries) outcome.add(read_elf(entry.code, kernels));
  return outcome.status();
}

/// Unpacks the headers of a bundle's entries.
Status reach_entries(BundleUnpacker* bundle) noexcept {
  std::uint64_t offset = kBundleMagic.size(), count;
  if (const Status status = bundle->reach(offset + sizeof count); status != Status::kOk) return status;
  const ImageReader reader(bundle->bytes());
  if (!reader.has_text(0, kBundleMagic)) return Status::kUnsupported;
  if (!reader.read(offset, &count) || count > kMaxEntries) return Status::kMalformed;
  offset += sizeof count;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t entry[3];  // offset, size, length of the id that follows
    if (const Status status = bundle->reach(offset + sizeof entry); status != Status::kOk) return status;
    if (!reader.read(offset, &entry) || entry[2] > kMaxIdBytes) return Status::kMalformed;
    offset += sizeof entry + entry[2];
    if (const Status status = bundle->reach(offset); status != Status::kOk) return status;
  }
  return Status::kOk;
}

/// Reads the entries that serve, and unpacks no further than they reach.
Status read_packed(BundleUnpacker* bundle, KernelSet* kernels, Architectures devices) noexcept {
  std::vector<BundleEntry> entries;
  if (const Status status = reach_entries(bundle); status != Status::kOk) return status;
  if (const Status status = bundle_entries(bundle->bytes(), &entries); status != Status::kOk) return status;
  keep_what_serves(devices, &entries);
  std::size_t end = 0;
  for (const BundleEntry& entry : entries)
    end = std::max(end, static_cast<std::size_t>(entry.code.data() - bundle->bytes().data()) + entry.code.size());
  if (const Status status = bundle->reach(end); status != Status::kOk) return status;
  return read_entries(entries, kernels);
}

}  // namespace

Status read_elf(std::span<const std::byte> image, KernelSet* kernels) noexcept {
  const ImageReader reader(image);
  Elf64_Ehdr header;
  if (!is_elf(reader)) return Status::kUnsupported;
  if (!reader.read(0, &header)) return Status::kMalformed;
  if (!is_usable(header)) return Status::kUnsupported;
  const Status status = read_elf_notes(reader, header, kernels);
  if (status == Status::kOk && may_have_variables(reader, header)) kernels->note_variables();
  return status;
}
Status bundle_entries(std::span<const std::byte> image, std::vector<BundleEntry>* entries) noexcept {
  const ImageReader reader(image);
  if (!reader.has_text(0, kBundleMagic)) return Status::kUnsupported;
  std::uint64_t offset = kBundleMagic.size(), count;
  if (!reader.read(offset, &count) || count > kMaxEntries) return Status::kMalformed;
  offset += sizeof count;
  try {
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t entry[3];  // offset, size, length of the id that follows
      if (!reader.read(offset, &entry) || entry[2] > kMaxIdBytes) return Status::kMalformed;
      offset += sizeof entry;
      if (!reader.contains(offset, entry[2]) || !reader.contains(entry[0], entry[1])) return Status::kMalformed;
      entries->push_back({reader.text(offset, entry[2]), reader.part(entry[0], entry[1])});
      offset += entry[2];
    }
  } catch (const std::bad_alloc&) {
    return Status::kNoMemory;
  }
  return Status::kOk;
}

Status read_bundle(std::span<const std::byte> image, KernelSet* kernels, Architectures devices) noexcept {
  std::vector<BundleEntry> entries;
  if (const Status status = bundle_entries(image, &entries); status != Status::kOk) return status;
  keep_what_serves(devices, &entries);
  return read_entries(entries, kernels);
}

Status read_image(std::span<const std::byte> image, KernelSet* kernels, Architectures devices) noexcept {
  const ImageReader reader(image);
  if (is_elf(reader)) return read_elf(image, kernels);
  if (reader.has_text(0, kBundleMagic)) return read_bundle(image, kernels, devices);
  if (!is_compressed_bundle(image)) return Status::kUnsupported;
  BundleUnpacker bundle;
  const Status opened = bundle.open(image);
  return opened == Status::kOk ? read_packed(&bundle, kernels, devices) : opened;
}

Status read_image(const void* image, KernelSet* kernels, Architectures devices) noexcept {
  if (image == nullptr) return Status::kUnsupported;
  const auto* begin = static_cast<const std::byte*>(image);
  // Each form has a magic of at least four bytes. Only a bundle's begins with an underscore, and is longer.
  const ImageReader magic({begin, 4});
  std::uint64_t promised = 0;
  if (is_elf(magic)) {
    promised = promised_elf_bytes(begin);
  } else if (is_compressed_bundle({begin, 4})) {
    BundleUnpacker bundle;
    const Status opened = bundle.open(begin);
    return opened == Status::kOk ? read_packed(&bundle, kernels, devices) : opened;
  } else if (magic.has_text(0, kBundleMagic.substr(0, 4)) &&
             std::memcmp(begin, kBundleMagic.data(), kBundleMagic.size()) == 0) {
    promised = promised_bundle_bytes(begin);
  } else {
    return Status::kUnsupported;
  }
  if (promised == 0 || promised > kMaxImageBytes) return Status::kMalformed;
  return read_image(std::span(begin, static_cast<std::size_t>(promised)), kernels, devices);
}

bool entry_serves(std::string_view id, std::string_view architecture) noexcept {
  if (!id.starts_with("hip") || id.find("amdgcn") == std::string_view::npos) return false;
  std::string_view wanted = target_of(id);
  if (wanted.empty() || next_feature(&wanted) != next_feature(&architecture)) return false;
  while (!wanted.empty()) {
    if (!has_feature(architecture, next_feature(&wanted))) return false;
  }
  return true;
}

}  // namespace graphpool
