// module.h: code objects loaded for a device, and the handles of their kernels.
//
// A device has its own copy of an object, so that its variables are its own: each load opens the file anew under
// another name. Code stays loaded while a module, a kernel or a graph node holds it. Function handles are never reused.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernel.h"

namespace cpuhip {

class Device;

/// The id of our entry in an offload bundle.
inline constexpr const char* kBundleEntry = "hipv4-x86_64-unknown-linux-gnu--cpu";

class Code : public std::enable_shared_from_this<Code> {
 public:
  /// Loads a copy for the device. hipErrorNoBinaryForGpu: for another machine; hipErrorInvalidImage: broken.
  static hipError_t load(std::span<const std::byte> object, Device& device, std::shared_ptr<Code>* code);
  ~Code();
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  /// Null when the object has no such kernel. The kernel keeps the code loaded.
  std::shared_ptr<const Kernel> kernel(const std::string& name);
  std::vector<std::string> kernel_names() const;
  /// A variable of the object: known to pointer queries from now on. False when there is none.
  bool variable(const std::string& name, void** address, std::size_t* bytes);

 private:
  Code() = default;

  struct Line {
    void* entry = nullptr;
    std::vector<KernelArgument> arguments;
    unsigned max_threads = 0, static_shared_bytes = 0;
    std::shared_ptr<std::atomic<int>> shared_limit;
  };
  int device_ = 0;
  int file_ = -1;  // held open: its name stays this object's alone
  void* library_ = nullptr;
  std::map<std::string, Line> kernels_;
  std::vector<void*> variables_;
};

/// Modules, for the current device; the errors are those of hipModuleLoad, hipModuleLoadData, hipModuleUnload and
/// hipModuleGetFunction.
hipError_t load_module(const void* image, hipModule_t* module);
hipError_t load_module_file(const void* name, hipModule_t* module);
/// A file that holds an image, with room behind it for the longest magic.
bool read_image_file(const char* name, std::vector<char>* image);
hipError_t unload_module(hipModule_t module);
hipError_t get_function(hipModule_t module, const char* name, hipFunction_t* function);
/// The module's code, or null when the handle is none.
std::shared_ptr<Code> code_of(hipModule_t module);

/// What a hipFunction_t points to. Handles are never freed, so that a stale one is told from an unknown one, but serve
/// again as CPUHIP_REUSE says.
struct FunctionHandle {
  const std::string* name = nullptr;     ///< kept for ever
  std::shared_ptr<const Kernel> kernel;  ///< null once its module is gone
};

/// A new handle for the kernel; it owns the kernel until release_function().
hipFunction_t make_function(std::shared_ptr<const Kernel> kernel);
void release_function(hipFunction_t function);
/// The kernel of a handle; null for what never was one. A released handle ends the process with its name.
std::shared_ptr<const Kernel> kernel_of(const void* function);
/// The name behind a handle, valid for ever; null for what never was one.
const char* function_name(const void* function);

/// The handle of a registered host stub on a device: registration.cpp.
hipError_t function_of_stub(const void* stub, Device& device, hipFunction_t* function);

}  // namespace cpuhip
