#include "rtc_object.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "common/elf_object.h"

namespace cudahip {
namespace {

using hipfront::KernelArgument;
using hipfront::ObjectEntry;

constexpr std::string_view kPtxSection = ".nv_ptx", kNoteSection = ".note";
constexpr char kSectionNames[] = "\0.note\0.nv_ptx\0.shstrtab";

/// PTX's words: `.param .align 8 .b8 name[24]` is several, punctuation is one each.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  /// Empty at the end.
  std::string_view next() {
    while (at_ < text_.size() &&
           (std::isspace(static_cast<unsigned char>(text_[at_])) != 0 || text_.substr(at_, 2) == "//"))
      at_ = text_.substr(at_, 2) == "//" ? std::min(text_.find('\n', at_), text_.size()) : at_ + 1;
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == begin && at_ < text_.size()) ++at_;
    return text_.substr(begin, at_ - begin);
  }

 private:
  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' || c == '.';
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

std::size_t number(std::string_view text) {
  std::size_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') break;
    value = 10 * value + static_cast<std::size_t>(c - '0');
  }
  return value;
}

/// ".u64" -> 8; 0 for words that are no type.
std::size_t type_bytes(std::string_view word) {
  if (word.size() < 3 || word[0] != '.' || std::string_view("busf").find(word[1]) == std::string_view::npos) return 0;
  const std::size_t bits = number(word.substr(2));
  return bits % 8 == 0 && bits <= 128 ? bits / 8 : 0;
}

/// What follows one `.param` up to its comma or bracket; the name is left behind.
struct Parameter {
  std::size_t bytes = 0, align = 0;
  std::string_view name, end;
};

Parameter read_parameter(Words& words) {
  Parameter parameter;
  std::size_t elements = 1;
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (word == "," || word == ")") {
      parameter.end = word;
      break;
    }
    if (word == ".align") {
      parameter.align = number(words.next());
    } else if (word == "[") {
      elements = number(words.next());
    } else if (const std::size_t bytes = type_bytes(word); bytes != 0 && parameter.bytes == 0) {
      parameter.bytes = bytes;
    } else if (word[0] != '.' && word != "]") {
      parameter.name = word;
    }
  }
  if (parameter.align == 0) parameter.align = parameter.bytes;
  parameter.bytes *= elements;
  return parameter;
}

/// Reads from behind the body's opening bracket to its end: which parameters are addresses, shared memory.
void read_body(Words& words, const std::vector<Parameter>& parameters, ObjectEntry* kernel) {
  std::vector<std::pair<std::string_view, std::size_t>> loaded;  // register, parameter
  const auto parameter_of = [&](std::string_view name) -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].name == name) return i;
    return std::nullopt;
  };
  int depth = 1;
  for (std::string_view word = words.next(); !word.empty() && depth != 0; word = words.next()) {
    if (word == "{") ++depth;
    if (word == "}" && --depth == 0) break;
    if (word == ".shared") {
      Parameter variable;
      std::size_t elements = 1;
      for (std::string_view part = words.next(); part != ";" && !part.empty(); part = words.next()) {
        if (part == "[")
          elements *= number(words.next());
        else if (variable.bytes == 0)
          variable.bytes = type_bytes(part);
      }
      kernel->static_shared_bytes += static_cast<unsigned>(variable.bytes * elements);
    } else if (word.starts_with("ld.param.") && word.ends_with("64")) {
      const std::string_view target = words.next();
      words.next();  // ,
      words.next();  // [
      if (const auto index = parameter_of(words.next())) loaded.emplace_back(target, *index);
    } else if (word.starts_with("cvta.to.global")) {
      words.next();
      words.next();  // ,
      const std::string_view source = words.next();
      for (const auto& [target, index] : loaded)
        if (target == source) kernel->arguments[index].pointer = kernel->arguments[index].bytes == sizeof(void*);
    }
  }
}

template <typename T>
void put(std::vector<std::byte>& file, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  file.insert(file.end(), bytes, bytes + sizeof value);
}

void put_text(std::vector<std::byte>& file, std::string_view text, std::size_t align) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  file.insert(file.end(), bytes, bytes + text.size());
  file.resize((file.size() + align - 1) / align * align);
}

}  // namespace

std::vector<ObjectEntry> read_ptx(std::string_view ptx) {
  std::vector<ObjectEntry> kernels;
  Words words(ptx);
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (word != ".entry") continue;
    ObjectEntry kernel;
    kernel.is_kernel = true;
    kernel.name = words.next();
    std::vector<Parameter> parameters;
    std::size_t end = 0;
    word = words.next();
    if (word == "(") {
      for (word = words.next(); word == ".param"; word = words.next()) {
        parameters.push_back(read_parameter(words));
        const Parameter& parameter = parameters.back();
        const std::size_t align = std::max<std::size_t>(parameter.align, 1);
        const std::size_t offset = (end + align - 1) / align * align;
        kernel.arguments.push_back({offset, parameter.bytes, false});
        kernel.args_align = std::max(kernel.args_align, align);
        end = offset + parameter.bytes;
        if (parameter.end == ")") break;
      }
      word = words.next();
    }
    for (; word != "{" && !word.empty(); word = words.next()) {
      if (word != ".maxntid") continue;
      std::size_t threads = 1;
      for (int i = 0; i < 3; ++i) {
        threads *= std::max<std::size_t>(number(words.next()), 1);
        if (i < 2) words.next();  // ,
      }
      kernel.max_threads = static_cast<unsigned>(threads);
    }
    read_body(words, parameters, &kernel);
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

std::vector<std::byte> make_object(const std::string& ptx) {
  const std::vector<ObjectEntry> kernels = read_ptx(ptx);
  std::vector<const ObjectEntry*> pointers;
  for (const ObjectEntry& kernel : kernels) pointers.push_back(&kernel);
  const std::string metadata = hipfront::pack_metadata(pointers, "nvptx64-nvidia-cuda", false);

  constexpr std::uint16_t kSections = 4;
  constexpr std::uint32_t kMetadataNote = 32;
  std::vector<std::byte> file;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = EM_CUDA;
  header.e_version = EV_CURRENT;
  header.e_phoff = sizeof header;
  header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = kSections;
  header.e_shstrndx = kSections - 1;
  file.reserve(4096 + metadata.size() + ptx.size());
  file.resize(sizeof header + sizeof(Elf64_Phdr));

  const std::size_t note = file.size();
  put(file, Elf64_Nhdr{sizeof "AMDGPU", static_cast<Elf64_Word>(metadata.size()), kMetadataNote});
  put_text(file, std::string_view("AMDGPU", sizeof "AMDGPU"), 4);
  put_text(file, metadata, 4);
  const std::size_t note_bytes = file.size() - note;
  file.resize((file.size() + 15) / 16 * 16);
  const std::size_t text = file.size();
  put_text(file, {ptx.c_str(), ptx.size() + 1}, 8);
  const std::size_t names = file.size();
  put_text(file, {kSectionNames, sizeof kSectionNames}, 8);
  header.e_shoff = file.size();

  const std::string_view all(kSectionNames, sizeof kSectionNames);
  const auto section = [&](std::string_view name, Elf64_Word type, std::size_t offset, std::size_t bytes,
                           std::size_t align) {
    Elf64_Shdr entry{};
    entry.sh_name = name.empty() ? 0 : static_cast<Elf64_Word>(all.find(name));
    entry.sh_type = type;
    entry.sh_offset = offset;
    entry.sh_size = bytes;
    entry.sh_addralign = align;
    put(file, entry);
  };
  section("", SHT_NULL, 0, 0, 0);
  section(kNoteSection, SHT_NOTE, note, note_bytes, 4);
  section(kPtxSection, SHT_PROGBITS, text, ptx.size() + 1, 16);
  section(".shstrtab", SHT_STRTAB, names, sizeof kSectionNames, 1);

  Elf64_Phdr segment{};
  segment.p_type = PT_NOTE;
  segment.p_flags = PF_R;
  segment.p_offset = note;
  segment.p_filesz = segment.p_memsz = note_bytes;
  segment.p_align = 4;
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + sizeof header, &segment, sizeof segment);
  return file;
}

const char* ptx_of(std::span<const std::byte> object) {
  try {
    const hipfront::Elf elf(object);
    for (const Elf64_Shdr& section : elf.sections()) {
      if (elf.string(elf.section(elf.header().e_shstrndx), section.sh_name) != kPtxSection) continue;
      const hipfront::Bytes text = elf.content(section);
      if (!text.empty() && text.back() == std::byte{0}) return reinterpret_cast<const char*>(text.data());
    }
  } catch (const std::exception&) {
    // Not ours.
  }
  return nullptr;
}

}  // namespace cudahip
