// registrations.h: what compiled programs have registered: fat binaries, and what host stubs and variables stand for.
//
// The first registration of a stub wins, as in HIP (a kernel template in two shared libraries). Nothing is loaded here:
// what a runtime has loaded of a binary on a device is a `Copy`, what it made of a stub there a `Function`.
// Threads: under the lock of its owner.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hipfront {

template <typename Copy, typename Function>
struct Registrations {
  struct FatBinary {
    const void* image = nullptr;
    bool elsewhere = false;      ///< the code is in a file; `image` says where
    std::map<int, Copy> copies;  ///< by device
  };
  struct Stub {
    FatBinary* binary = nullptr;
    std::string name;
    std::map<int, Function> functions;  ///< by device
  };
  struct Variable {
    FatBinary* binary = nullptr;
    std::string name;
  };

  /// `data`: what hipcc's constructor passes to __hipRegisterFatBinary. Null where it is nothing of the kind.
  /// `elsewhere`: the code may be in a file, too.
  void** add_binary(const void* data, bool elsewhere = false) {
    struct {
      std::uint32_t magic, version;
      const void* binary;
      const void* unused;
    } wrapper;
    if (data == nullptr) return nullptr;
    std::memcpy(&wrapper, data, sizeof wrapper);
    constexpr std::uint32_t kMagic = 0x48495046, kElsewhere = 0x4B504948;  // "HIPF", "HIPK"
    if ((wrapper.magic != kMagic && !(elsewhere && wrapper.magic == kElsewhere)) || wrapper.version != 1)
      return nullptr;
    auto binary = std::make_unique<FatBinary>();
    binary->elsewhere = wrapper.magic == kElsewhere;
    binary->image = wrapper.binary;
    auto** const handle = reinterpret_cast<void**>(binary.get());
    binaries[handle] = std::move(binary);
    return handle;
  }
  void add_stub(void** modules, const void* stub, const char* name) {
    const auto binary = binaries.find(modules);
    if (binary != binaries.end()) stubs.try_emplace(stub, Stub{binary->second.get(), name, {}});
  }
  void add_variable(void** modules, const void* variable, const char* name) {
    const auto binary = binaries.find(modules);
    if (binary != binaries.end()) variables.try_emplace(variable, Variable{binary->second.get(), name});
  }
  /// Takes out a binary and what stood for parts of it; the functions of its stubs are appended. Null: it is not known.
  std::unique_ptr<FatBinary> remove_binary(void** modules, std::vector<Function>* functions) {
    const auto found = binaries.find(modules);
    if (found == binaries.end()) return nullptr;
    std::unique_ptr<FatBinary> gone = std::move(found->second);
    binaries.erase(found);
    std::erase_if(variables, [&](const auto& item) { return item.second.binary == gone.get(); });
    std::erase_if(stubs, [&](const auto& item) {
      if (item.second.binary != gone.get()) return false;
      for (const auto& [ordinal, function] : item.second.functions) functions->push_back(function);
      return true;
    });
    return gone;
  }

  std::unordered_map<void**, std::unique_ptr<FatBinary>> binaries;
  std::unordered_map<const void*, Stub> stubs;
  std::unordered_map<const void*, Variable> variables;
};

}  // namespace hipfront
