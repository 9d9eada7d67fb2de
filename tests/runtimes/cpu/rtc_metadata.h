// rtc_metadata.h: what is known of the kernels of an object: read from what the compiler made, written as AMD's metadata
// note, read back from a finished code object.
//
// A finished object carries two notes: owner "AMDGPU", type 32, the msgpack map AMD's compiler writes; and owner
// "CPUHIP", type 1, the lowered names of cpuhip_entry_0, cpuhip_entry_1, ... each ended by a zero byte. Objects are
// little-endian ELF64; anything else is refused, not trusted.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kernel.h"

namespace cpuhip {

/// A kernel, or a variable named by an expression, in the order of the object's cpuhip_entry_<i>.
struct ObjectEntry {
  std::string name;  ///< mangled
  bool is_kernel = false;
  std::vector<KernelArgument> arguments;
  std::size_t args_align = 4;
  unsigned max_threads = 1024;
  unsigned static_shared_bytes = 0;
};

struct CompiledObject {
  std::vector<ObjectEntry> entries;
  bool prints = false;  ///< calls printf: AMD's compiler adds hidden arguments then
};

/// Reads a relocatable object. Throws std::runtime_error when it is not what the prelude makes.
CompiledObject read_compiled_object(std::span<const std::byte> object);

/// The assembler text of both notes.
std::string notes_assembly(const CompiledObject& object);

struct CodeObject {
  bool for_this_machine = false;         ///< x86-64 and made by us; nothing else is filled in when false
  std::vector<std::string> entry_names;  ///< of cpuhip_entry_<i>
  std::vector<ObjectEntry> kernels;
};

/// Reads a finished code object. Throws std::runtime_error when it is no ELF file or broken.
CodeObject read_code_object(std::span<const std::byte> object);

/// The kernels of a code object for any machine, AMD's too. Throws std::runtime_error.
std::vector<ObjectEntry> read_metadata(std::span<const std::byte> object);

/// The size of the ELF file that begins at the address, by its headers; 0 when it is none.
std::size_t elf_bytes(const void* image);

}  // namespace cpuhip
