// code_object.h: what is known of the kernels of a code object, and AMD's metadata note that says it: owner "AMDGPU",
// type 32, a msgpack map. Both runtimes write it, so that what they compile can be read like AMD's.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace hipfront {

struct KernelArgument {
  std::size_t offset = 0, bytes = 0;
  bool pointer = false;  ///< global_buffer
};

/// A kernel, or a variable named by an expression.
struct ObjectEntry {
  std::string name;  ///< mangled
  bool is_kernel = false;
  std::vector<KernelArgument> arguments;
  std::size_t args_align = 4;
  unsigned max_threads = 1024;
  unsigned static_shared_bytes = 0;
};

/// The note's body. `prints`: the kernels call printf; AMD's compiler adds hidden arguments then.
std::string pack_metadata(std::span<const ObjectEntry* const> kernels, const char* target, bool prints);

/// The kernels a note's body describes. Throws std::runtime_error.
std::vector<ObjectEntry> parse_metadata(std::span<const std::byte> note);

/// The kernels of a code object for any machine, AMD's too. Throws std::runtime_error.
std::vector<ObjectEntry> read_metadata(std::span<const std::byte> object);

}  // namespace hipfront
