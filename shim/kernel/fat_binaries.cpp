#include "shim/kernel/fat_binaries.h"

namespace graphpool {

void FatBinaries::enter(const Registration& registration) {
  const auto known = binaries_.find(registration.handle);
  if (registration.image != nullptr) {
    if (known != binaries_.end() && known->second.image == registration.image) return;  // the runtime answers the same
    forget(registration.handle);
    Binary& added = binaries_[registration.handle];
    added.image = registration.image;
    added.readable = registration.readable;
    return;
  }
  if (known == binaries_.end() || binary_of_stub_.contains(registration.stub)) return;
  const char* name = facts_.keep_name(registration.name());
  known->second.stubs.push_back(registration.stub);
  binary_of_stub_.emplace(registration.stub, registration.handle);
  PointerTable::Value value =
      pack({nullptr, name, set_kernels_.next_generation({registration.handle, name}, registration.stub)});
  if (name != nullptr) value[0] = kUnreadLayout;
  table_.put(registration.stub, value);
}

void FatBinaries::forget(void** handle) noexcept {
  const auto binary = binaries_.find(handle);
  if (binary == binaries_.end()) return;
  for (const void* stub : binary->second.stubs) {
    table_.erase(stub);
    binary_of_stub_.erase(stub);
  }
  functions_.forget(binary->second.functions, handle);
  set_kernels_.forget_owner(handle);
  binaries_.erase(binary);
}

bool FatBinaries::is_read(void** handle) const noexcept {
  const auto binary = binaries_.find(handle);
  return binary != binaries_.end() && binary->second.reader != 0;
}

FatBinaries::Reading FatBinaries::begin_reading(const void* stub) {
  void** const handle = binary_of_stub_.at(stub);
  Binary& binary = binaries_.at(handle);
  binary.reader = ++last_reader_;
  return {handle, binary.reader, binary.readable ? binary.image : nullptr};
}

void FatBinaries::end_reading(const Reading& reading, const KernelSet* kernels) {
  was_read.notify_all();
  const auto binary = binaries_.find(reading.handle);
  if (binary == binaries_.end() || binary->second.reader != reading.number) return;
  binary->second.reader = 0;
  for (const void* stub : binary->second.stubs) {
    PointerTable::Value entry;
    if (!table_.find(stub, &entry) || entry[0] != kUnreadLayout) continue;
    KernelInfo info = unpack(entry);
    const KernelDescription* const kernel = kernels != nullptr ? kernels->find(info.name) : nullptr;
    info.layout = facts_.layout_of(kernel);
    info.may_be_asked = kernel == nullptr;
    table_.put(stub, pack(info));
  }
}

Status FatBinaries::add_function(const void* stub, const KernelInfo& info, const void* function) {
  const auto handle = binary_of_stub_.find(stub);
  if (!info.registered() || handle == binary_of_stub_.end()) return Status::kNotFound;
  return functions_.add(handle->second, &binaries_.at(handle->second).functions, function, info);
}

const void* FatBinaries::owner_of(const void* stub) const noexcept {
  const auto binary = binary_of_stub_.find(stub);
  return binary == binary_of_stub_.end() ? nullptr : binary->second;
}

std::vector<const void*> FatBinaries::handles_of(const void* owner) const {
  const auto binary = binaries_.find(static_cast<void**>(const_cast<void*>(owner)));
  if (binary == binaries_.end()) return {};
  std::vector<const void*> all = binary->second.stubs;
  all.insert(all.end(), binary->second.functions.begin(), binary->second.functions.end());
  return all;
}

}  // namespace graphpool
