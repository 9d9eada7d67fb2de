#include "module.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <unordered_set>

#include "api.h"
#include "capture.h"
#include "common/module_image.h"
#include "device.h"
#include "handles.h"
#include "memory.h"
#include "rtc_metadata.h"

struct ihipModule_t {
  std::shared_ptr<cpuhip::Code> code;
  std::map<std::string, hipFunction_t> functions;
};

namespace cpuhip {
namespace {

/// Guards what follows and the members of ihipModule_t. Nothing is called under it that takes another lock of the
/// runtime.
std::mutex& module_lock() {
  static auto* lock = new std::mutex;
  return *lock;
}

/// Handles have a place each, which serves again.
class FunctionHandles {
 public:
  FunctionHandle* create() {
    FunctionHandle* const handle = places_.create();
    known_.insert(handle);
    return handle;
  }
  void give_back(FunctionHandle* handle) {
    places_.kill(handle);
    places_.give_back(handle);
  }
  FunctionHandle* find(const void* handle) const {
    return known_.contains(handle) ? static_cast<FunctionHandle*>(const_cast<void*>(handle)) : nullptr;
  }

 private:
  HandleTable<FunctionHandle> places_;
  std::unordered_set<const void*> known_;
};
FunctionHandles& functions() {
  static auto* table = new FunctionHandles;
  return *table;
}

/// A copy that stays.
const std::string* kept_name(const std::string& name) {
  static auto* names = new std::set<std::string>;
  return &*names->insert(name).first;
}

std::unordered_set<hipModule_t>& modules() {
  static auto* table = new std::unordered_set<hipModule_t>;
  return *table;
}

/// Writes the object into a file without a name of its own and opens it as a library.
hipError_t open_library(std::span<const std::byte> object, int* file, void** library) {
  *file = ::memfd_create("cpuhip-kernels", MFD_CLOEXEC);
  if (*file < 0) return hipErrorSharedObjectInitFailed;
  for (std::size_t done = 0; done < object.size();) {
    const ssize_t written = ::write(*file, object.data() + done, object.size() - done);
    if (written < 0) return hipErrorSharedObjectInitFailed;
    done += static_cast<std::size_t>(written);
  }
  *library = ::dlopen(("/proc/self/fd/" + std::to_string(*file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  return *library == nullptr ? hipErrorSharedObjectInitFailed : hipSuccess;
}

}  // namespace

hipError_t Code::load(std::span<const std::byte> object, Device& device, std::shared_ptr<Code>* code) {
  CodeObject read;
  try {
    read = read_code_object(object);
  } catch (const std::exception&) {
    return hipErrorInvalidImage;
  }
  if (!read.for_this_machine) return hipErrorNoBinaryForGpu;
  std::shared_ptr<Code> made(new Code);
  made->device_ = device.ordinal();
  if (const hipError_t error = open_library(object, &made->file_, &made->library_); error != hipSuccess) return error;
  struct Entry {  // the head of kernel_prelude.inc's Entry
    const void* address;
    void* run;
  };
  for (std::size_t i = 0; i < read.entry_names.size(); ++i) {
    const auto* entry =
        static_cast<const Entry*>(::dlsym(made->library_, ("cpuhip_entry_" + std::to_string(i)).c_str()));
    const auto metadata = std::find_if(read.kernels.begin(), read.kernels.end(),
                                       [&](const ObjectEntry& kernel) { return kernel.name == read.entry_names[i]; });
    if (entry == nullptr || entry->run == nullptr || metadata == read.kernels.end()) continue;
    made->kernels_[metadata->name] = {entry->run, metadata->arguments, metadata->max_threads,
                                      metadata->static_shared_bytes, std::make_shared<std::atomic<int>>(-1)};
  }
  *code = std::move(made);
  return hipSuccess;
}

Code::~Code() {
  for (void* address : variables_) unregister_global(address);
  if (library_ != nullptr) ::dlclose(library_);
  if (file_ >= 0) ::close(file_);
}

std::shared_ptr<const Kernel> Code::kernel(const std::string& name) {
  const auto found = kernels_.find(name);
  if (found == kernels_.end()) return nullptr;
  auto kernel = std::make_shared<Kernel>();
  kernel->name = name;
  kernel->arguments = found->second.arguments;
  for (const KernelArgument& argument : kernel->arguments)
    kernel->args_bytes = std::max(kernel->args_bytes, argument.offset + argument.bytes);
  kernel->max_threads = found->second.max_threads;
  kernel->static_shared_bytes = found->second.static_shared_bytes;
  kernel->device = device_;
  kernel->entry = found->second.entry;
  kernel->shared_limit = found->second.shared_limit;
  kernel->module = shared_from_this();
  return kernel;
}

std::vector<std::string> Code::kernel_names() const {
  std::vector<std::string> names;
  for (const auto& [name, line] : kernels_) names.push_back(name);
  return names;
}

bool Code::variable(const std::string& name, void** address, std::size_t* bytes) {
  void* found = ::dlsym(library_, name.c_str());
  Dl_info info{};
  const ElfW(Sym)* symbol = nullptr;
  if (found == nullptr ||
      ::dladdr1(found, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || info.dli_saddr != found)
    return false;
  *address = found;
  if (bytes != nullptr) *bytes = symbol->st_size;
  {
    const std::lock_guard lock(module_lock());
    if (std::find(variables_.begin(), variables_.end(), found) != variables_.end()) return true;
    variables_.push_back(found);
  }
  register_global(found, symbol->st_size, device_);
  return true;
}

hipError_t load_module(const void* image, hipModule_t* module) {
  if (module == nullptr) return hipErrorInvalidValue;
  hipfront::ModuleImage opened(kBundleEntry);
  if (const hipError_t error = opened.open(image); error != hipSuccess) return error;
  auto loaded = std::make_unique<ihipModule_t>();
  if (const hipError_t error = Code::load(opened.object(), current_device(), &loaded->code); error != hipSuccess)
    return error;
  const std::lock_guard lock(module_lock());
  modules().insert(loaded.get());
  *module = loaded.release();
  return hipSuccess;
}

bool read_image_file(const char* name, std::vector<char>* image) {
  std::ifstream in(name, std::ios::binary);
  if (!in) return false;
  image->assign(std::istreambuf_iterator<char>(in), {});
  image->resize(image->size() + 64);
  return true;
}

hipError_t load_module_file(const void* name, hipModule_t* module) {
  if (module == nullptr || name == nullptr) return hipErrorInvalidValue;
  std::vector<char> image;
  if (!read_image_file(static_cast<const char*>(name), &image)) return hipErrorFileNotFound;
  return load_module(image.data(), module);
}

hipError_t unload_module(hipModule_t module) {
  if (module == nullptr) return hipErrorInvalidResourceHandle;
  std::unique_ptr<ihipModule_t> owned;
  {
    const std::lock_guard lock(module_lock());
    if (modules().erase(module) == 0) return hipErrorNotFound;
    owned.reset(module);
  }
  for (const auto& [name, function] : owned->functions) release_function(function);
  return hipSuccess;
}

std::shared_ptr<Code> code_of(hipModule_t module) {
  const std::lock_guard lock(module_lock());
  return modules().contains(module) ? module->code : nullptr;
}

hipError_t get_function(hipModule_t module, const char* name, hipFunction_t* function) {
  const std::shared_ptr<Code> code = code_of(module);
  if (code == nullptr) return hipErrorNotFound;
  std::shared_ptr<const Kernel> kernel = code->kernel(name);
  if (kernel == nullptr) return hipErrorNotFound;
  {
    const std::lock_guard lock(module_lock());
    const auto found = module->functions.find(name);
    if (found != module->functions.end()) {
      *function = found->second;
      return hipSuccess;
    }
  }
  const hipFunction_t made = make_function(std::move(kernel));
  {
    const std::lock_guard lock(module_lock());
    *function = module->functions.try_emplace(name, made).first->second;
  }
  if (*function != made) release_function(made);  // another thread was first
  return hipSuccess;
}

hipFunction_t make_function(std::shared_ptr<const Kernel> kernel) {
  const std::lock_guard lock(module_lock());
  FunctionHandle* const handle = functions().create();
  handle->name = kept_name(kernel->name);
  handle->kernel = std::move(kernel);
  return reinterpret_cast<hipFunction_t>(handle);
}

void release_function(hipFunction_t function) {
  std::shared_ptr<const Kernel> last;  // its code may go with it, not under the lock
  const std::lock_guard lock(module_lock());
  FunctionHandle* const found = functions().find(function);
  if (found == nullptr || found->kernel == nullptr) return;
  last = std::move(found->kernel);
  functions().give_back(found);
}

std::shared_ptr<const Kernel> kernel_of(const void* function) {
  const std::lock_guard lock(module_lock());
  const FunctionHandle* const found = functions().find(function);
  if (found == nullptr) return nullptr;
  if (found->kernel == nullptr) fatal("function %p (%s): its module has been unloaded", function, found->name->c_str());
  return found->kernel;
}

const char* function_name(const void* function) {
  const std::lock_guard lock(module_lock());
  const FunctionHandle* const found = functions().find(function);
  return found == nullptr ? nullptr : found->name->c_str();
}

}  // namespace cpuhip

using cpuhip::api;
using cpuhip::Call;

CPUHIP_EXPORT hipError_t hipModuleLoad(hipModule_t* module, const char* fname) {
  return api("hipModuleLoad", [&](Call&) { return cpuhip::load_module_file(fname, module); });
}

CPUHIP_EXPORT hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  return api("hipModuleLoadData", [&](Call&) { return cpuhip::load_module(image, module); });
}

CPUHIP_EXPORT hipError_t hipModuleLoadDataEx(hipModule_t* module, const void* image, unsigned int, hipJitOption*,
                                             void**) {
  return api("hipModuleLoadDataEx", [&](Call&) { return cpuhip::load_module(image, module); });
}

CPUHIP_EXPORT hipError_t hipModuleLoadFatBinary(hipModule_t* module, const void* fatbin) {
  return api("hipModuleLoadFatBinary", [&](Call&) { return cpuhip::load_module(fatbin, module); });
}

CPUHIP_EXPORT hipError_t hipModuleUnload(hipModule_t module) {
  return api("hipModuleUnload", [&](Call&) {
    // Seen of AMD's 7.2.4; 5.7.1 and 6.4.3 do it.
    const bool taken = cpuhip::config().version < 70000000;
    const hipError_t forbidden = taken ? hipSuccess : cpuhip::check_capture_unsafe_call();
    return forbidden == hipSuccess ? cpuhip::unload_module(module) : forbidden;
  });
}

CPUHIP_EXPORT hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* kname) {
  return api("hipModuleGetFunction", [&](Call&) {
    if (function == nullptr || kname == nullptr || *kname == '\0') return hipErrorInvalidValue;
    if (module == nullptr) return hipErrorInvalidResourceHandle;
    return cpuhip::get_function(module, kname, function);
  });
}

CPUHIP_EXPORT hipError_t hipModuleGetGlobal(hipDeviceptr_t* dptr, size_t* bytes, hipModule_t module, const char* name) {
  return api("hipModuleGetGlobal", [&](Call&) {
    if ((dptr == nullptr && bytes == nullptr) || name == nullptr || *name == '\0') return hipErrorInvalidValue;
    if (module == nullptr) return hipErrorInvalidResourceHandle;
    const std::shared_ptr<cpuhip::Code> code = cpuhip::code_of(module);
    void* address = nullptr;
    if (code == nullptr || !code->variable(name, &address, bytes)) return hipErrorNotFound;
    if (dptr != nullptr) *dptr = address;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipModuleEnumerateFunctions(hipFunction_t* found, unsigned int count, hipModule_t module) {
  return api("hipModuleEnumerateFunctions", [&](Call&) {
    if (found == nullptr || count == 0) return hipErrorInvalidValue;
    const std::shared_ptr<cpuhip::Code> code = cpuhip::code_of(module);
    if (code == nullptr) return hipErrorInvalidResourceHandle;
    for (const std::string& name : code->kernel_names()) {
      if (count-- == 0) break;
      if (const hipError_t error = cpuhip::get_function(module, name.c_str(), found++); error != hipSuccess)
        return error;
    }
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipModuleGetFunctionCount(unsigned int* count, hipModule_t module) {
  return api("hipModuleGetFunctionCount", [&](Call&) {
    if (count == nullptr) return hipErrorInvalidValue;
    const std::shared_ptr<cpuhip::Code> code = cpuhip::code_of(module);
    if (code == nullptr) return hipErrorInvalidResourceHandle;
    *count = static_cast<unsigned>(code->kernel_names().size());
    return hipSuccess;
  });
}
