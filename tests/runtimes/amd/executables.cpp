// executables.cpp: code objects are loaded onto a device: an ELF image is laid out, relocated, and its kernels and
// variables found.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kernels.h"
#include "memory.h"
#include "settings.h"

namespace hsa_cpu {
namespace {

// Of AMD's ELF (LLVM, "User Guide for AMDGPU Backend").
constexpr std::uint16_t kMachineAmdgpu = 224;
constexpr std::uint32_t kAbs32Low = 1, kAbs32High = 2, kAbs64 = 3, kAbs32 = 6, kRelative64 = 13;

struct CodeObject {
  const char* data;
  std::size_t bytes;
};

struct Symbol {
  std::string name;
  std::uint64_t address, bytes;
  std::shared_ptr<const Kernel> kernel;  ///< null: a variable
};

struct Kernels {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::shared_ptr<const Kernel>> by_descriptor;
};
Kernels& kernels() {
  static auto* const all = new Kernels;
  return *all;
}

class Executable {
 public:
  Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable() {
    {
      const std::scoped_lock guard(kernels().mutex);
      for (const auto& [name, symbol] : symbols_)
        if (symbol.kernel != nullptr) kernels().by_descriptor.erase(symbol.address);
    }
    for (const auto& [base, bytes] : images_) {
      code_unloaded(base);
      unmap_image(base, bytes);
    }
  }

  void define(const char* name, const void* address) { defined_[name] = reinterpret_cast<std::uint64_t>(address); }
  hsa_status_t load(const Agent& agent, const CodeObject& object);
  const Symbol* find(const char* name) const {
    const auto found = symbols_.find(name);
    return found == symbols_.end() ? nullptr : &found->second;
  }
  const std::map<std::string, Symbol>& symbols() const { return symbols_; }

 private:
  /// What the image's dynamic section names.
  struct Dynamic {
    const Elf64_Sym* symbols = nullptr;
    const char* strings = nullptr;
    const Elf64_Rela* relocations = nullptr;
    std::size_t relocation_count = 0, symbol_count = 0;
  };
  static Dynamic read_dynamic(const char* base, std::uint64_t at);
  std::uint64_t address_of(const Dynamic& dynamic, const Elf64_Sym& symbol, const char* base) const;
  hsa_status_t relocate(const Dynamic& dynamic, char* base) const;
  void add_symbols(const Dynamic& dynamic, const char* base, const Agent& agent);

  std::map<std::string, std::uint64_t> defined_;  ///< variables that lie elsewhere
  std::map<std::string, Symbol> symbols_;
  std::vector<std::pair<char*, std::size_t>> images_;
};

Executable::Dynamic Executable::read_dynamic(const char* base, std::uint64_t at) {
  Dynamic dynamic;
  for (auto* entry = reinterpret_cast<const Elf64_Dyn*>(base + at); entry->d_tag != DT_NULL; ++entry) {
    const char* const address = base + entry->d_un.d_ptr;
    switch (entry->d_tag) {
      case DT_SYMTAB:
        dynamic.symbols = reinterpret_cast<const Elf64_Sym*>(address);
        break;
      case DT_STRTAB:
        dynamic.strings = address;
        break;
      case DT_RELA:
        dynamic.relocations = reinterpret_cast<const Elf64_Rela*>(address);
        break;
      case DT_RELASZ:
        dynamic.relocation_count = entry->d_un.d_val / sizeof(Elf64_Rela);
        break;
      case DT_HASH:
        dynamic.symbol_count = reinterpret_cast<const std::uint32_t*>(address)[1];
        break;
      default:
        break;
    }
  }
  return dynamic;
}

std::uint64_t Executable::address_of(const Dynamic& dynamic, const Elf64_Sym& symbol, const char* base) const {
  if (symbol.st_shndx != SHN_UNDEF) return reinterpret_cast<std::uint64_t>(base) + symbol.st_value;
  const auto found = defined_.find(dynamic.strings + symbol.st_name);
  return found == defined_.end() ? 0 : found->second;
}

hsa_status_t Executable::relocate(const Dynamic& dynamic, char* base) const {
  for (std::size_t i = 0; i < dynamic.relocation_count; ++i) {
    const Elf64_Rela& entry = dynamic.relocations[i];
    const std::uint32_t symbol = static_cast<std::uint32_t>(ELF64_R_SYM(entry.r_info));
    const auto addend = static_cast<std::uint64_t>(entry.r_addend);
    const std::uint64_t value = symbol != 0 ? address_of(dynamic, dynamic.symbols[symbol], base) + addend
                                            : reinterpret_cast<std::uint64_t>(base) + addend;
    const std::uint64_t high = value >> 32;
    char* const place = base + entry.r_offset;
    switch (ELF64_R_TYPE(entry.r_info)) {
      case kRelative64:
      case kAbs64:
        std::memcpy(place, &value, 8);
        break;
      case kAbs32Low:
      case kAbs32:
        std::memcpy(place, &value, 4);
        break;
      case kAbs32High:
        std::memcpy(place, &high, 4);
        break;
      default:
        complain("a code object has a relocation of type %lu", ELF64_R_TYPE(entry.r_info));
        return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
    }
  }
  return HSA_STATUS_SUCCESS;
}

void Executable::add_symbols(const Dynamic& dynamic, const char* base, const Agent& agent) {
  constexpr std::string_view kDescriptor = ".kd";
  for (std::size_t i = 1; i < dynamic.symbol_count; ++i) {
    const Elf64_Sym& entry = dynamic.symbols[i];
    if (entry.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(entry.st_info) != STT_OBJECT) continue;
    Symbol symbol{dynamic.strings + entry.st_name, address_of(dynamic, entry, base), entry.st_size, nullptr};
    if (symbol.name.ends_with(kDescriptor)) {
      std::uint32_t sizes[3];  // group, private and argument bytes begin a kernel's descriptor
      std::memcpy(sizes, base + entry.st_value, sizeof sizes);
      symbol.kernel =
          std::make_shared<const Kernel>(Kernel{symbol.name.substr(0, symbol.name.size() - kDescriptor.size()), &agent,
                                                symbol.address, sizes[2], sizes[0], sizes[1]});
      const std::scoped_lock guard(kernels().mutex);
      kernels().by_descriptor[symbol.address] = symbol.kernel;
    }
    symbols_[symbol.name] = std::move(symbol);
  }
}

hsa_status_t Executable::load(const Agent& agent, const CodeObject& object) {
  Elf64_Ehdr header;
  if (object.bytes < sizeof header) return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
  std::memcpy(&header, object.data, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != kMachineAmdgpu ||
      header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr) > object.bytes)
    return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  std::memcpy(segments.data(), object.data + header.e_phoff, segments.size() * sizeof(Elf64_Phdr));
  std::size_t span = 0;
  std::uint64_t dynamic_at = 0;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_DYNAMIC) dynamic_at = segment.p_vaddr;
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_offset + segment.p_filesz > object.bytes) return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
    span = std::max(span, static_cast<std::size_t>(segment.p_vaddr + segment.p_memsz));
  }
  if (span == 0 || dynamic_at == 0) return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
  span = round_up(span, kPage);
  char* const base = map_image(agent, span);
  if (base == nullptr) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  images_.emplace_back(base, span);
  for (const Elf64_Phdr& segment : segments)
    if (segment.p_type == PT_LOAD)
      std::memcpy(base + segment.p_vaddr, object.data + segment.p_offset, segment.p_filesz);
  const Dynamic dynamic = read_dynamic(base, dynamic_at);
  if (dynamic.symbols == nullptr || dynamic.strings == nullptr) return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
  const hsa_status_t status = relocate(dynamic, base);
  if (status != HSA_STATUS_SUCCESS) return status;
  add_symbols(dynamic, base, agent);
  code_loaded(base, span);
  return HSA_STATUS_SUCCESS;
}

template <typename Value>
hsa_status_t answer(void* out, Value value) {
  std::memcpy(out, &value, sizeof value);
  return HSA_STATUS_SUCCESS;
}

Executable& executable_of(hsa_executable_t handle) { return *reinterpret_cast<Executable*>(handle.handle); }

}  // namespace

std::shared_ptr<const Kernel> find_kernel(std::uint64_t descriptor) {
  const std::scoped_lock guard(kernels().mutex);
  const auto found = kernels().by_descriptor.find(descriptor);
  return found == kernels().by_descriptor.end() ? nullptr : found->second;
}

}  // namespace hsa_cpu

using namespace hsa_cpu;

HSA_CPU_API hsa_status_t hsa_code_object_reader_create_from_memory(const void* data, std::size_t bytes,
                                                                   hsa_code_object_reader_t* out) {
  out->handle = reinterpret_cast<std::uint64_t>(new CodeObject{static_cast<const char*>(data), bytes});
  return HSA_STATUS_SUCCESS;
}
HSA_CPU_API hsa_status_t hsa_code_object_reader_destroy(hsa_code_object_reader_t reader) {
  delete reinterpret_cast<CodeObject*>(reader.handle);
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_executable_create_alt(hsa_profile_t, hsa_default_float_rounding_mode_t, const char*,
                                                   hsa_executable_t* out) {
  out->handle = reinterpret_cast<std::uint64_t>(new Executable);
  return HSA_STATUS_SUCCESS;
}
HSA_CPU_API hsa_status_t hsa_executable_destroy(hsa_executable_t executable) {
  delete &executable_of(executable);
  return HSA_STATUS_SUCCESS;
}
HSA_CPU_API hsa_status_t hsa_executable_load_agent_code_object(hsa_executable_t executable, hsa_agent_t agent,
                                                               hsa_code_object_reader_t reader, const char*,
                                                               hsa_loaded_code_object_t*) {
  return executable_of(executable).load(*agent_of(agent), *reinterpret_cast<CodeObject*>(reader.handle));
}
HSA_CPU_API hsa_status_t hsa_executable_freeze(hsa_executable_t, const char*) { return HSA_STATUS_SUCCESS; }

HSA_CPU_API hsa_status_t hsa_executable_agent_global_variable_define(hsa_executable_t executable, hsa_agent_t,
                                                                     const char* name, void* address) {
  executable_of(executable).define(name, address);
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_executable_get_symbol_by_name(hsa_executable_t executable, const char* name,
                                                           const hsa_agent_t*, hsa_executable_symbol_t* out) {
  const Symbol* const symbol = executable_of(executable).find(name);
  if (symbol == nullptr) return HSA_STATUS_ERROR_INVALID_SYMBOL_NAME;
  out->handle = reinterpret_cast<std::uint64_t>(symbol);
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_executable_iterate_symbols(hsa_executable_t executable,
                                                        hsa_status_t (*callback)(hsa_executable_t,
                                                                                 hsa_executable_symbol_t, void*),
                                                        void* data) {
  for (const auto& [name, symbol] : executable_of(executable).symbols()) {
    const hsa_status_t status = callback(executable, {reinterpret_cast<std::uint64_t>(&symbol)}, data);
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_executable_symbol_get_info(hsa_executable_symbol_t handle,
                                                        hsa_executable_symbol_info_t what, void* out) {
  const Symbol& symbol = *reinterpret_cast<const Symbol*>(handle.handle);
  const Kernel* const kernel = symbol.kernel.get();
  switch (static_cast<int>(what)) {
    case HSA_EXECUTABLE_SYMBOL_INFO_TYPE:
      return answer(out, std::uint32_t{kernel != nullptr ? HSA_SYMBOL_KIND_KERNEL : HSA_SYMBOL_KIND_VARIABLE});
    case HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH:
      return answer(out, static_cast<std::uint32_t>(symbol.name.size()));
    case HSA_EXECUTABLE_SYMBOL_INFO_NAME:
      std::memcpy(out, symbol.name.data(), symbol.name.size());
      return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS:
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT:
      return answer(out, symbol.address);
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE:
      return answer(out, static_cast<std::uint32_t>(symbol.bytes));
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE:
      return answer(out, kernel != nullptr ? kernel->kernarg_bytes : 0);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_ALIGNMENT:
      return answer(out, std::uint32_t{64});
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE:
      return answer(out, kernel != nullptr ? kernel->group_bytes : 0);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE:
      return answer(out, kernel != nullptr ? kernel->private_bytes : 0);
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_IS_CONST:
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_DYNAMIC_CALLSTACK:
      return answer(out, false);
    case HSA_EXECUTABLE_SYMBOL_INFO_IS_DEFINITION:
      return answer(out, true);
    default:
      complain("hsa_executable_symbol_get_info: %d is not known", static_cast<int>(what));
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}
