#include "tests/support/code_images.h"

#include <elf.h>
#include <sys/mman.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdlib>
#include <cstring>

#ifndef MSGPACK_NO_BOOST
#define MSGPACK_NO_BOOST
#endif
#include <msgpack.hpp>

namespace graphpool::images {
namespace {

template <typename Field>
void append(std::string* out, Field field) {
  out->append(reinterpret_cast<const char*>(&field), sizeof field);
}

void pad(std::string* out, std::size_t align) { out->resize((out->size() + align - 1) / align * align); }

}  // namespace

std::vector<KernelText> sample_kernels() {
  return {
      {"mixed", 60, {{0, 1, "by_value"}, {8, 8, "global_buffer"}, {16, 24, "by_value"}, {40, 2, "by_value"}}},
      {"_Z5scalePffi",
       280,
       {{0, 8, "global_buffer"},
        {8, 4, "by_value"},
        {12, 4, "by_value"},
        {16, 4, "hidden_block_count_x"},
        {24, 8, "hidden_hostcall_buffer"}}},
      {"empty", 0, {}},
  };
}

std::string metadata(const std::vector<KernelText>& kernels) {
  msgpack::sbuffer buffer;
  msgpack::packer<msgpack::sbuffer> pack(buffer);
  const auto text = [&pack](const std::string& value) -> auto& {
    pack.pack_str(static_cast<std::uint32_t>(value.size()));
    return pack.pack_str_body(value.data(), static_cast<std::uint32_t>(value.size()));
  };
  pack.pack_map(3);
  text("amdhsa.kernels");
  pack.pack_array(static_cast<std::uint32_t>(kernels.size()));
  for (const KernelText& kernel : kernels) {
    pack.pack_map(6);
    text(".agpr_count").pack_int(0);
    text(".args").pack_array(static_cast<std::uint32_t>(kernel.arguments.size()));
    for (const ArgumentText& argument : kernel.arguments) {
      pack.pack_map(4);
      text(".address_space");
      text("global");
      text(".offset").pack_uint64(argument.offset);
      text(".size").pack_uint64(argument.bytes);
      text(".value_kind");
      text(argument.kind);
    }
    text(".kernarg_segment_size").pack_uint64(kernel.segment_bytes);
    text(".language_version").pack_array(2).pack_int(2).pack_int(0);
    text(".name");
    text(kernel.name);
    text(".uses_dynamic_stack").pack_false();
  }
  text("amdhsa.target");
  text("amdgcn-amd-amdhsa--gfx90a");
  text("amdhsa.version").pack_array(2).pack_int(1).pack_int(1);
  return {buffer.data(), buffer.size()};
}

std::string note(const std::string& owner, std::uint32_t type, const std::string& description, std::size_t align) {
  std::string out;
  append(&out, static_cast<std::uint32_t>(owner.size() + 1));
  append(&out, static_cast<std::uint32_t>(description.size()));
  append(&out, type);
  out += owner + '\0';
  pad(&out, align);
  out += description;
  pad(&out, align);
  return out;
}

std::string elf(const std::string& notes, bool sections, std::uint16_t machine) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = machine;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  const std::uint64_t at = sizeof header + 2 * sizeof(Elf64_Phdr);
  std::string out;
  if (sections) {
    header.e_shnum = 2;
    header.e_shoff = (at + notes.size() + 7) / 8 * 8;
  } else {
    header.e_phnum = 2;
    header.e_phoff = sizeof header;
  }
  append(&out, header);
  Elf64_Phdr load{}, segment{};
  if (!sections) {
    load.p_type = PT_LOAD;
    load.p_filesz = load.p_memsz = at;
    segment.p_type = PT_NOTE;
    segment.p_offset = at;
    segment.p_filesz = segment.p_memsz = notes.size();
    segment.p_align = 4;
  }
  append(&out, load);
  append(&out, segment);
  out += notes;
  if (sections) {
    out.resize(header.e_shoff);
    Elf64_Shdr none{}, section{};
    section.sh_type = SHT_NOTE;
    section.sh_offset = at;
    section.sh_size = notes.size();
    section.sh_addralign = 4;
    append(&out, none);
    append(&out, section);
  }
  return out;
}

std::string code_object(const std::vector<KernelText>& kernels) { return elf(note("AMDGPU", 32, metadata(kernels))); }

std::string bundle(const std::vector<std::pair<std::string, std::string>>& entries, std::size_t align) {
  std::string out = "__CLANG_OFFLOAD_BUNDLE__";
  append(&out, std::uint64_t{entries.size()});
  std::size_t at = out.size();
  for (const auto& [id, code] : entries) at += 24 + id.size();
  for (const auto& [id, code] : entries) {
    at = (at + align - 1) / align * align;
    append(&out, std::uint64_t{at});
    append(&out, std::uint64_t{code.size()});
    append(&out, std::uint64_t{id.size()});
    out += id;
    at += code.size();
  }
  for (const auto& [id, code] : entries) {
    pad(&out, align);
    out += code;
  }
  return out;
}

std::string compress(const std::string& bundle, unsigned version, bool zstd) {
  std::string packed(std::max(ZSTD_compressBound(bundle.size()), std::size_t{compressBound(bundle.size())}), '\0');
  if (zstd) {
    packed.resize(ZSTD_compress(packed.data(), packed.size(), bundle.data(), bundle.size(), 3));
  } else {
    uLongf bytes = packed.size();
    if (::compress(reinterpret_cast<Bytef*>(packed.data()), &bytes, reinterpret_cast<const Bytef*>(bundle.data()),
                   bundle.size()) != Z_OK) {
      std::abort();
    }
    packed.resize(bytes);
  }
  std::string out = "CCOB";
  append(&out, static_cast<std::uint16_t>(version));
  append(&out, static_cast<std::uint16_t>(zstd ? 1 : 0));
  if (version == 2) append(&out, static_cast<std::uint32_t>(24 + packed.size()));
  if (version == 3) append(&out, std::uint64_t{32 + packed.size()});
  if (version == 3) {
    append(&out, std::uint64_t{bundle.size()});
  } else {
    append(&out, static_cast<std::uint32_t>(bundle.size()));
  }
  append(&out, std::uint64_t{0x0123456789abcdef});  // a hash nobody checks
  return out + packed;
}

GuardedImage::GuardedImage(const std::string& image) : bytes_(image.size()) {
  constexpr std::size_t kHostPageBytes = 4096;
  const std::size_t pages = (image.size() + kHostPageBytes - 1) / kHostPageBytes * kHostPageBytes;
  mapped_bytes_ = pages + kHostPageBytes;
  void* mapped = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) std::abort();
  pages_ = static_cast<std::byte*>(mapped);
  if (mprotect(pages_ + pages, kHostPageBytes, PROT_NONE) != 0) std::abort();
  data_ = pages_ + pages - image.size();
  std::memcpy(data_, image.data(), image.size());
}

GuardedImage::~GuardedImage() { munmap(pages_, mapped_bytes_); }

}  // namespace graphpool::images
