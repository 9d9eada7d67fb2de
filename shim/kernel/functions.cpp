#include "shim/kernel/functions.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>
#include <span>

#include "shim/base/guest_scope.h"
#include "shim/kernel/asked_kernels.h"
#include "shim/kernel/code_object.h"
#include "shim/kernel/kernel_owners.h"

namespace graphpool {

KernelOwners& Functions::owners() {
  if (owners_ == nullptr) owners_ = new KernelOwners(table_);
  return *owners_;
}

/// Enters what was registered; reads no binary. Without memory a stub stays unknown.
void Functions::drain_registrations() noexcept {
  registrations.drain([&](const Registration& registration) {
    assume_held(mutex_);
    owners().binaries.enter(registration);
  });
}

// --- compiled programs ---

void Functions::on_fat_binary_unregistered(void** handle) noexcept {
  UniqueLock lock(mutex_);
  drain_registrations();
  if (owners_ == nullptr) return;
  while (owners_->binaries.is_read(handle)) owners_->binaries.was_read.wait(lock);
  owners_->binaries.forget(handle);
}

KernelInfo Functions::find(const void* key) noexcept {
  if (!registrations.waiting()) {
    PointerTable::Value value;
    if (!table_.find(key, &value)) return {};
    if (value[0] != kUnreadLayout) return unpack(value);
  }
  try {
    return find_slowly(key);
  } catch (const std::bad_alloc&) {
    return {};
  }
}

/// Enters what is new, and reads the binary that the stub belongs to.
KernelInfo Functions::find_slowly(const void* key) {
  UniqueLock lock(mutex_);
  drain_registrations();
  for (;;) {
    PointerTable::Value value;
    if (!table_.find(key, &value)) return {};
    if (value[0] != kUnreadLayout) return unpack(value);
    if (owners_->binaries.binary_of_is_read(key)) {
      owners_->binaries.was_read.wait(lock);
      continue;
    }
    const FatBinaries::Reading reading = owners_->binaries.begin_reading(key);
    lock.unlock();
    KernelSet kernels;
    const bool usable =
        reading.image != nullptr && read_image(reading.image, &kernels, device_architectures()) == Status::kOk;
    lock.lock();
    owners_->binaries.end_reading(reading, usable ? &kernels : nullptr);
  }
}

bool Functions::still_there(const void* stub_or_function, std::uint64_t generation) noexcept {
  const std::uint64_t now = find(stub_or_function).generation;
  return now != 0 && ((now ^ generation) & kRegistrationMask) == 0;
}

bool Functions::is_stub(const void* address) noexcept {
  const LockGuard lock(mutex_);
  return owners_ != nullptr && owners_->binaries.owner_of(address) != nullptr;
}

KernelInfo Functions::learn(const void* stub_or_function, const KernelInfo& asked,
                            const std::vector<Argument>* arguments) noexcept {
  try {
    const LockGuard lock(mutex_);
    return owners_ == nullptr ? KernelInfo{} : owners_->learn(stub_or_function, asked, arguments);
  } catch (const std::bad_alloc&) {
    return {};
  }
}

// --- modules ---

Status Functions::add_module(const void* module, Status read, const KernelSet& kernels, const char* file) noexcept {
  try {
    const LockGuard lock(mutex_);
    return owners().modules.add(module, read, kernels, file);
  } catch (const std::bad_alloc&) {
    return Status::kNoMemory;
  }
}

Status Functions::on_module_loaded(const void* module, const void* image) noexcept {
  KernelSet kernels;
  const Status read = read_image(image, &kernels, device_architectures());
  return add_module(module, read, kernels);
}

Status Functions::on_module_loaded(const void* module, const void* image, std::size_t image_bytes) noexcept {
  KernelSet kernels;
  const std::span bytes(static_cast<const std::byte*>(image), image_bytes);
  const Status read = read_image(bytes, &kernels, device_architectures());
  return add_module(module, read, kernels);
}

Status Functions::on_module_file_loaded(const void* module, const char* path) noexcept {
  const GuestScope guest;
  KernelSet kernels;
  Status read = Status::kNotFound;
  if (const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC); file >= 0) {
    struct stat facts;
    if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0) {
      const auto bytes = static_cast<std::size_t>(facts.st_size);
      // The file is mapped, not read: it may have hundreds of megabytes, and only its notes are looked at.
      if (void* image = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0); image != MAP_FAILED) {
        const std::span all(static_cast<const std::byte*>(image), bytes);
        read = read_image(all, &kernels, device_architectures());
        munmap(image, bytes);
      }
    }
    close(file);
  }
  return add_module(module, read, kernels, path);
}

void Functions::on_module_unloaded(const void* module) noexcept {
  const LockGuard lock(mutex_);
  if (owners_ != nullptr) owners_->modules.forget(module);
}

std::vector<const void*> Functions::handles_of_module(const void* module) {
  const LockGuard lock(mutex_);
  return owners_ == nullptr ? std::vector<const void*>() : owners_->modules.handles_of(module);
}

const char* Functions::file_of(const void* function) noexcept {
  const LockGuard lock(mutex_);
  return owners_ == nullptr ? nullptr : owners_->modules.file_of(function);
}

void Functions::on_variable_found(const void* module, const void* address, std::size_t bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  if (begin == 0 || bytes == 0 || begin + bytes < begin) return;
  try {
    const LockGuard lock(mutex_);
    owners().modules.add_variable(module, begin, bytes);
  } catch (const std::bad_alloc&) {
  }
}

const void* Functions::module_of_variable(const void* address) noexcept {
  const LockGuard lock(mutex_);
  return owners_ == nullptr ? nullptr : owners_->modules.module_of_variable(reinterpret_cast<std::uintptr_t>(address));
}

Status Functions::on_function_found(const void* module, const char* name, const void* function) noexcept {
  if (name == nullptr || function == nullptr) return Status::kMalformed;
  try {
    const LockGuard lock(mutex_);
    return owners().modules.add_function(module, name, function);
  } catch (const std::bad_alloc&) {
    return Status::kNoMemory;
  }
}

Status Functions::on_function_of_stub(const void* stub, const void* function) noexcept {
  if (function == nullptr) return Status::kMalformed;
  const KernelInfo info = find(stub);
  try {
    const LockGuard lock(mutex_);
    return owners_ == nullptr ? Status::kNotFound : owners_->binaries.add_function(stub, info, function);
  } catch (const std::bad_alloc&) {
    return Status::kNoMemory;
  }
}

// --- what is set of kernels ---

bool Functions::knows_kernel(const void* handle) noexcept { return find(handle).name != nullptr; }

bool Functions::has_setting(const void* handle, KernelSetting setting, std::uint64_t value) noexcept {
  const KernelInfo info = find(handle);
  const LockGuard lock(mutex_);
  return owners_ != nullptr && owners_->has_setting(handle, info.name, setting, value);
}

bool Functions::set(const void* handle, KernelSetting setting, std::uint64_t value, bool certain) noexcept {
  const KernelInfo info = find(handle);
  try {
    const LockGuard lock(mutex_);
    return owners_ != nullptr && owners_->set(handle, info.name, setting, value, certain);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Functions::forget_settings() noexcept {
  const LockGuard lock(mutex_);
  if (owners_ != nullptr) owners_->forget_settings();
}

std::vector<const void*> Functions::handles_of_same_kernel(const void* handle) {
  const KernelInfo info = find(handle);
  const LockGuard lock(mutex_);
  return owners_ == nullptr ? std::vector<const void*>() : owners_->handles_of_kernel(handle, info.name);
}

}  // namespace graphpool
