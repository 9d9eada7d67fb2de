// registered.h: what hipcc puts into a program, for one kernel compiled at run time: its host stub is known to HIP.
#pragma once

#include <elf.h>
#include <hip/hiprtc.h>

#include <string>
#include <vector>

#include "captures.h"

extern "C" {
void** __hipRegisterFatBinary(const void* data);
void __hipRegisterFunction(void** modules, const void* host_function, char* device_function, const char* device_name,
                           unsigned thread_limit, void* tid, void* bid, void* block, void* grid, int* warp);
void __hipRegisterVar(void** modules, void* variable, char* host_name, char* device_name, int ext, std::size_t size,
                      int constant, int global);
void __hipUnregisterFatBinary(void** modules);
}

namespace captures {

/// The entry of a bundle that a code object goes under: by the header of its ELF file.
inline std::string bundle_target(const std::vector<char>& code) {
  Elf64_Ehdr header;
  std::memcpy(&header, code.data(), sizeof header);
  constexpr Elf64_Half kAmdGpu = 224;
  if (header.e_machine != kAmdGpu) return "hipv4-x86_64-unknown-linux-gnu--cpu";
  const std::map<unsigned, std::string> processors = {{0x2f, "gfx906"}, {0x30, "gfx908"}, {0x3f, "gfx90a"}};
  return "hipv4-amdgcn-amd-amdhsa--" + processors.at(header.e_flags & 0xff);
}

/// A fat binary with one kernel, registered like a compiled program's; the stub is the caller's.
class Registered {
 public:
  Registered(const char* source, const char* name, const void* stub) {
    const std::vector<char> code = compiled_code(source);
    const std::string target = bundle_target(code), magic = "__CLANG_OFFLOAD_BUNDLE__";
    constexpr std::uint64_t kAt = 4096;
    const std::uint64_t header[] = {1, kAt, code.size(), target.size()};
    image_.assign(magic.begin(), magic.end());
    const auto* const words = reinterpret_cast<const char*>(header);
    image_.insert(image_.end(), words, words + sizeof header);
    image_.insert(image_.end(), target.begin(), target.end());
    image_.resize(kAt);
    image_.insert(image_.end(), code.begin(), code.end());
    wrapper_.binary = image_.data();
    handle_ = __hipRegisterFatBinary(&wrapper_);
    std::string device_name = name;
    __hipRegisterFunction(handle_, stub, device_name.data(), name, ~0u, nullptr, nullptr, nullptr, nullptr, nullptr);
  }
  ~Registered() { __hipUnregisterFatBinary(handle_); }
  /// A variable of the code; the shadow is the caller's.
  void add_variable(const char* name, void* shadow, std::size_t bytes) {
    std::string device_name = name;
    __hipRegisterVar(handle_, shadow, device_name.data(), device_name.data(), 0, bytes, 0, 0);
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  struct {
    unsigned magic = 0x48495046, version = 1;
    const void* binary = nullptr;
    void* unused = nullptr;
  } wrapper_;
  std::vector<char> image_;
  void** handle_ = nullptr;
};

}  // namespace captures
