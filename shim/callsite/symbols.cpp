#include "shim/callsite/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "shim/base/guest_scope.h"
#include "shim/base/image_reader.h"

namespace graphpool {
namespace {

constexpr std::string_view kNoRoom = "?";

struct Module {
  char path[PATH_MAX] = "";
  std::uintptr_t base = 0;
  bool found = false;

  std::string_view name() const noexcept {
    const std::string_view all = path;
    return all.substr(all.rfind('/') + 1);  // npos + 1 is 0
  }
};

struct Search {
  std::uintptr_t address;
  Module* module;
};

/// dl_iterate_phdr gives the program itself no name.
void name_program(Module* module) noexcept {
  const ssize_t bytes = readlink("/proc/self/exe", module->path, sizeof module->path - 1);
  module->path[bytes < 0 ? 0 : bytes] = '\0';
}

void find_module(std::uintptr_t address, Module* module) noexcept {
  Search search{address, module};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) -> int {
        const auto* search = static_cast<Search*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || search->address - info->dlpi_addr - segment.p_vaddr >= segment.p_memsz)
            continue;
          search->module->found = true;
          search->module->base = info->dlpi_addr;
          std::snprintf(search->module->path, sizeof search->module->path, "%s", info->dlpi_name);
          return 1;
        }
        return 0;
      },
      &search);
  if (module->found && module->path[0] == '\0') name_program(module);
}

/// A file mapped for reading.
class MappedFile {
 public:
  explicit MappedFile(const char* path) noexcept {
    if (std::strchr(path, '/') == nullptr) return;  // the vDSO: a name, not a file
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat facts;
    if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0) {
      bytes_ = static_cast<std::size_t>(facts.st_size);
      data_ = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file, 0);
    }
    close(file);
  }
  ~MappedFile() {
    if (data_ != MAP_FAILED) munmap(data_, bytes_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const noexcept {
    if (data_ == MAP_FAILED) return {};
    return {static_cast<const std::byte*>(data_), bytes_};
  }

 private:
  void* data_ = MAP_FAILED;
  std::size_t bytes_ = 0;
};

/// Of several names for one place the most visible is taken, then the first.
int rank(const Elf64_Sym& symbol) noexcept {
  const unsigned binding = ELF64_ST_BIND(symbol.st_info);
  return binding == STB_GLOBAL ? 3 : binding == STB_WEAK ? 2 : 1;
}

/// The name of the function around `address` (an address as the file has it) in one symbol table; empty if none.
std::string_view find_in_table(const ImageReader& file, const Elf64_Shdr& table, const Elf64_Shdr& strings,
                               std::uint64_t address) noexcept {
  if (!file.contains(table.sh_offset, table.sh_size) || !file.contains(strings.sh_offset, strings.sh_size)) return {};
  std::string_view found;
  int found_rank = 0;
  Elf64_Sym symbol;
  for (std::uint64_t i = 0; i + sizeof symbol <= table.sh_size; i += sizeof symbol) {
    if (!file.read(table.sh_offset + i, &symbol)) return {};
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF) continue;
    if (address < symbol.st_value || address - symbol.st_value >= symbol.st_size || rank(symbol) <= found_rank)
      continue;
    if (symbol.st_name >= strings.sh_size) continue;
    const std::string_view rest = file.text(strings.sh_offset + symbol.st_name, strings.sh_size - symbol.st_name);
    found = rest.substr(0, rest.find('\0'));
    found_rank = rank(symbol);
  }
  return found;
}

std::string_view find_function(const ImageReader& file, std::uint64_t address) noexcept {
  Elf64_Ehdr header;
  if (!file.has_text(0, {ELFMAG, SELFMAG}) || !file.read(0, &header) || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_shentsize != sizeof(Elf64_Shdr) || !file.contains(header.e_shoff, 0)) {
    return {};
  }
  for (const std::uint32_t wanted : {SHT_DYNSYM, SHT_SYMTAB}) {
    for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
      Elf64_Shdr table, strings;
      if (!file.read(header.e_shoff + i * sizeof table, &table)) return {};
      if (table.sh_type != wanted || table.sh_link >= header.e_shnum) continue;
      if (!file.read(header.e_shoff + table.sh_link * sizeof strings, &strings)) return {};
      if (const std::string_view found = find_in_table(file, table, strings, address); !found.empty()) return found;
    }
  }
  return {};
}

/// Throws std::bad_alloc.
std::string demangled(std::string_view name) {
  const std::string terminated(name);
  int status = -1;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(terminated.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 && text != nullptr ? std::string(text.get()) : terminated;
}

std::string offset_text(std::string_view module, std::uintptr_t offset) {
  char digits[2 * sizeof offset + 1];
  std::snprintf(digits, sizeof digits, "%lx", static_cast<unsigned long>(offset));
  return std::string(module) + "+0x" + digits;
}

std::string describe(std::uintptr_t return_address) {
  Module module;
  find_module(return_address - 1, &module);
  if (!module.found) return offset_text("?", return_address);
  const MappedFile file(module.path);
  const std::string_view function = find_function(ImageReader(file.bytes()), return_address - 1 - module.base);
  if (function.empty()) return offset_text(module.name(), return_address - module.base);
  return (std::string(module.name()) + '!' + demangled(function)).substr(0, Symbols::kMaxTextBytes);
}

bool look_up(const PointerTable& table, std::uintptr_t address, std::uint64_t generation,
             std::string_view* text) noexcept {
  PointerTable::Value value;
  if (!table.find(reinterpret_cast<const void*>(address), &value) || value[2] != generation) return false;
  *text = {reinterpret_cast<const char*>(value[0]), static_cast<std::size_t>(value[1])};
  return true;
}

}  // namespace

std::uint64_t Symbols::generation() noexcept {
  std::uint64_t unloaded = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) -> int {
        *static_cast<std::uint64_t*>(data) = info->dlpi_subs;
        return 1;
      },
      &unloaded);
  return unloaded;
}

std::string_view Symbols::text(std::uintptr_t return_address, std::uint64_t generation) noexcept {
  std::string_view known;
  if (look_up(texts_, return_address, generation, &known)) return known;
  const GuestScope guest;
  try {
    known = keep(&texts_, return_address, generation, describe(return_address));
  } catch (const std::bad_alloc&) {
    known = kNoRoom;
  }
  return known;
}

std::string_view Symbols::module(std::uintptr_t return_address, std::uint64_t generation) noexcept {
  std::string_view known;
  if (look_up(modules_, return_address, generation, &known)) return known;
  const GuestScope guest;
  Module module;
  find_module(return_address - 1, &module);
  known = keep(&modules_, return_address, generation, module.found ? module.name() : kNoRoom);
  return known;
}

std::string_view Symbols::keep(PointerTable* table, std::uintptr_t address, std::uint64_t generation,
                               std::string_view text) noexcept {
  try {
    const LockGuard lock(mutex_);
    if (kept_ == nullptr) kept_ = new std::unordered_set<std::string>;
    std::string_view kept = kNoRoom;
    if (const auto known = kept_->find(std::string(text)); known != kept_->end()) {
      kept = *known;
    } else if (kept_->size() < kMaxTexts) {
      kept = *kept_->emplace(text).first;
    }
    if (table->size() >= kMaxAddresses) return kept;
    table->put(reinterpret_cast<const void*>(address),
               {reinterpret_cast<std::uint64_t>(kept.data()), kept.size(), generation});
    return kept;
  } catch (const std::bad_alloc&) {
    return kNoRoom;
  }
}

}  // namespace graphpool
