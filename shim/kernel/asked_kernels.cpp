#include "shim/kernel/asked_kernels.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shim/hip/next.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"

namespace graphpool {
namespace {

/// From this version on handles may be others: nothing is asked.
constexpr int kOtherHandles = 80000000;

/// More arguments are not believed.
constexpr std::size_t kMostArguments = 4096;

/// Finds the name of the architecture. Its place in the structure differs by version: it is behind the name of the
/// product, as the only text of this form.
std::string architecture_in(const char* properties, std::size_t bytes) {
  constexpr std::string_view kProcessor = "gfx";
  constexpr std::size_t kNameBytes = 256;
  const std::string_view all(properties + kNameBytes, bytes - kNameBytes);
  const std::size_t begin = all.find(kProcessor);
  if (begin == std::string_view::npos) return {};
  return std::string(all.substr(begin, all.find('\0', begin) - begin));
}

/// Asks for the architectures of all devices. Empty: not all are known, or there is no device.
std::vector<std::string> ask_devices() {
  std::vector<std::string> all;
  int devices = 0;
  if (!PrivateCalls::answered([&] { return next().hipGetDeviceCount(&devices); })) return {};
  for (int device = 0; device < devices; ++device) {
    // Larger than the structure of any version.
    alignas(hipDeviceProp_t) char properties[8 * sizeof(hipDeviceProp_t)] = {};
    const auto ask = [&] {
      return next().hipGetDeviceProperties(reinterpret_cast<hipDeviceProp_t*>(properties), device);
    };
    if (!PrivateCalls::answered(ask)) return {};
    std::string name = architecture_in(properties, sizeof properties);
    if (name.empty()) return {};
    if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(std::move(name));
  }
  return all;
}

/// A function handle of the kernel; null: the runtime has none.
void* handle_of(const void* stub_or_function) noexcept {
  if (!functions().is_stub(stub_or_function)) return const_cast<void*>(stub_or_function);
  hipFunction_t function = nullptr;
  const auto ask = [&] { return next().hipGetFuncBySymbol(&function, stub_or_function); };
  return PrivateCalls::answered(ask) ? function : nullptr;
}

/// Asks for the argument with this number; std::nullopt: there is none. Returns false if the runtime did not say.
bool ask_argument(void* kernel, std::size_t number, std::optional<Argument>* argument) noexcept {
  std::size_t offset = 0, bytes = 0;
  hipError_t result = hipSuccess;
  const auto ask = [&] { return result = next().hipKernelGetParamInfo(kernel, number, &offset, &bytes); };
  if (!PrivateCalls::answered(ask)) return result == hipErrorInvalidValue;
  if (offset > ArgumentLayout::kMaxBytes || bytes > ArgumentLayout::kMaxBytes) return false;
  *argument = Argument{static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(bytes), ArgumentKind::kUnknown};
  return true;
}

/// Asks for all arguments. Returns false if the runtime did not say.
bool ask_arguments(void* kernel, std::vector<Argument>* arguments) {
  for (std::size_t number = 0; number < kMostArguments; ++number) {
    std::optional<Argument> argument;
    if (!ask_argument(kernel, number, &argument)) return false;
    if (!argument) return true;
    arguments->push_back(*argument);
  }
  return false;
}

}  // namespace

Architectures device_architectures() noexcept {
  using Names = std::vector<std::string>;
  static constinit std::atomic<const Names*> known{nullptr};
  const Names* names = known.load(std::memory_order_acquire);
  if (names != nullptr) return *names;
  try {
    Names asked = ask_devices();
    if (asked.empty()) return {};
    const auto* const kept = new Names(std::move(asked));
    if (known.compare_exchange_strong(names, kept, std::memory_order_acq_rel)) return *kept;
    delete kept;
    return *names;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

KernelInfo ask_kernel(const void* stub_or_function, const KernelInfo& unknown) noexcept {
  if (!has(EntryId::hipKernelGetParamInfo) || runtime_version() >= kOtherHandles) return unknown;
  try {
    const PrivateCalls private_calls;
    std::vector<Argument> arguments;
    void* const kernel = handle_of(stub_or_function);
    const bool answered = kernel != nullptr && ask_arguments(kernel, &arguments);
    return functions().learn(stub_or_function, unknown, answered ? &arguments : nullptr);
  } catch (const std::bad_alloc&) {
    return unknown;
  }
}

}  // namespace graphpool
