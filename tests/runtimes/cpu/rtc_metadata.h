// rtc_metadata.h: what is known of the kernels of an object: read from what the compiler made, written as AMD's
// metadata note, read back from a finished code object.
//
// A finished object carries two notes: owner "AMDGPU", type 32, the msgpack map AMD's compiler writes; and owner
// "CPUHIP", type 1, the lowered names of cpuhip_entry_0, cpuhip_entry_1, ... each ended by a zero byte. Objects are
// little-endian ELF64; anything else is refused, not trusted.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/code_object.h"

namespace cpuhip {

using hipfront::ObjectEntry;  // in the order of the object's cpuhip_entry_<i>

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

}  // namespace cpuhip
