#include "shim/kernel/communication.h"

#include <dlfcn.h>

#include <algorithm>

#include "shim/kernel/functions.h"

namespace graphpool {
namespace {

bool contains(std::string_view text, std::string_view lower) noexcept {
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b; };
  return std::search(text.begin(), text.end(), lower.begin(), lower.end(), same) != text.end();
}

/// The file's name alone: a program may lie in a folder of such a name.
std::string_view without_folder(std::string_view path) noexcept { return path.substr(path.rfind('/') + 1); }

}  // namespace

bool names_communication(std::string_view name) noexcept {
  constexpr std::string_view kLibraries[] = {"nccl", "rccl", "msccl", "rocshmem", "nvshmem"};
  return std::any_of(std::begin(kLibraries), std::end(kLibraries),
                     [name](std::string_view library) { return contains(name, library); });
}

bool is_communication_kernel(const void* stub_or_function) noexcept {
  const KernelInfo kernel = functions().find(stub_or_function);
  if (kernel.name != nullptr && names_communication(kernel.name)) return true;
  if (const char* const file = functions().file_of(stub_or_function)) return names_communication(without_folder(file));
  Dl_info object{};
  return dladdr(stub_or_function, &object) != 0 && object.dli_fname != nullptr &&
         names_communication(without_folder(object.dli_fname));
}

}  // namespace graphpool
