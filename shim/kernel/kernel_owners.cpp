#include "shim/kernel/kernel_owners.h"

#include <algorithm>
#include <iterator>

#include "shim/base/seeded_defect.h"
#include "shim/kernel/code_object.h"

namespace graphpool {

// --- compiled programs ---

void KernelOwners::enter(const Registration& registration) {
  const auto known = binaries_.find(registration.handle);
  if (registration.image != nullptr) {
    if (known != binaries_.end() && known->second.image == registration.image) return;  // the runtime answers the same
    forget_binary(registration.handle);
    Binary& added = binaries_[registration.handle];
    added.image = registration.image;
    added.readable = registration.readable;
    return;
  }
  if (known == binaries_.end() || binary_of_stub_.contains(registration.stub)) return;
  const char* name = keep_name(registration.name());
  known->second.stubs.push_back(registration.stub);
  binary_of_stub_.emplace(registration.stub, registration.handle);
  PointerTable::Value value = pack({nullptr, name, next_generation({registration.handle, name}, registration.stub)});
  if (name != nullptr) value[0] = kUnreadLayout;
  table_.put(registration.stub, value);
}

void KernelOwners::forget_functions(const std::vector<const void*>& functions, const void* owner) noexcept {
  for (const void* function : functions) {
    const auto owned = owner_of_function_.find(function);
    if (owned == owner_of_function_.end() || owned->second != owner) continue;  // the handle has moved on
    table_.erase(function);
    owner_of_function_.erase(owned);
  }
}

void KernelOwners::forget_binary(void** handle) noexcept {
  const auto binary = binaries_.find(handle);
  if (binary == binaries_.end()) return;
  for (const void* stub : binary->second.stubs) {
    table_.erase(stub);
    binary_of_stub_.erase(stub);
  }
  forget_functions(binary->second.functions, handle);
  std::erase_if(set_kernels_, [handle](const auto& each) { return each.first.owner == handle; });
  binaries_.erase(binary);
}

bool KernelOwners::is_read(void** handle) const noexcept {
  const auto binary = binaries_.find(handle);
  return binary != binaries_.end() && binary->second.reader != 0;
}

KernelOwners::Reading KernelOwners::begin_reading(const void* stub) {
  void** const handle = binary_of_stub_.at(stub);
  Binary& binary = binaries_.at(handle);
  binary.reader = ++last_reader_;
  return {handle, binary.reader, binary.readable ? binary.image : nullptr};
}

void KernelOwners::end_reading(const Reading& reading, const KernelSet* kernels) {
  was_read.notify_all();
  const auto binary = binaries_.find(reading.handle);
  if (binary == binaries_.end() || binary->second.reader != reading.number) return;
  binary->second.reader = 0;
  for (const void* stub : binary->second.stubs) {
    PointerTable::Value entry;
    if (!table_.find(stub, &entry) || entry[0] != kUnreadLayout) continue;
    KernelInfo info = unpack(entry);
    const KernelDescription* const kernel = kernels != nullptr ? kernels->find(info.name) : nullptr;
    info.layout = layout_of(kernel);
    info.may_be_asked = kernel == nullptr;
    table_.put(stub, pack(info));
  }
}

// --- modules ---

Status KernelOwners::add_module(const void* module, Status read, const KernelSet& kernels, const char* file) {
  forget_module(module);  // an unload nobody saw: the handle has been used again
  Module& added = modules_[module];
  if (file != nullptr) added.file = keep_name(file);
  if (read != Status::kOk) return read;
  for (const auto& [name, kernel] : kernels.kernels()) added.layouts.emplace(name, layout_of(&kernel));
  return Status::kOk;
}

void KernelOwners::forget_module(const void* module) noexcept {
  if (seeded_defect(Seeded::kUnloadLeavesFunctions)) return;
  const auto unloaded = modules_.find(module);
  if (unloaded == modules_.end()) return;
  forget_functions(unloaded->second.functions, module);
  std::erase_if(set_kernels_, [module](const auto& each) { return each.first.owner == module; });
  variables_.forget_module(module);
  modules_.erase(unloaded);
}

/// A function its owner already has, of the same kernel, keeps its generation.
Status KernelOwners::add_function(const void* owner, std::vector<const void*>* functions, const void* function,
                                  KernelInfo info) {
  const auto [known, added] = owner_of_function_.try_emplace(function, owner);
  PointerTable::Value value;
  if (!added && known->second == owner && info.name != nullptr && table_.find(function, &value)) {
    const KernelInfo before = unpack(value);
    if (before.name == info.name && (before.layout == info.layout || info.may_be_asked)) return Status::kOk;
  }
  if (added || known->second != owner) functions->push_back(function);
  known->second = owner;
  info.generation = next_generation({owner, info.name}, function);
  if (!table_.put(function, pack(info))) return Status::kNoMemory;
  return info.layout == nullptr ? Status::kNotFound : Status::kOk;
}

Status KernelOwners::add_function_of_module(const void* module, const char* name, const void* function) {
  Module& owner = modules_[module];  // made here when the module came before us
  const auto layout = owner.layouts.find(name);
  const bool known = layout != owner.layouts.end();
  const KernelInfo info{known ? layout->second : nullptr, keep_name(name), 0, !known};
  return add_function(module, &owner.functions, function, info);
}

Status KernelOwners::add_function_of_stub(const void* stub, const KernelInfo& info, const void* function) {
  const auto handle = binary_of_stub_.find(stub);
  if (!info.registered() || handle == binary_of_stub_.end()) return Status::kNotFound;
  return add_function(handle->second, &binaries_.at(handle->second).functions, function, info);
}

void KernelOwners::add_variable(const void* module, std::uintptr_t begin, std::size_t bytes) {
  static_cast<void>(modules_[module]);  // made here when the module came before us
  variables_.add(module, begin, bytes);
}

std::vector<const void*> KernelOwners::handles_of_module(const void* module) const {
  const auto found = modules_.find(module);
  if (found == modules_.end()) return {};
  std::vector<const void*> all;
  std::copy_if(found->second.functions.begin(), found->second.functions.end(), std::back_inserter(all),
               [&](const void* each) { return owner_of(each) == module; });
  return all;
}

const char* KernelOwners::file_of(const void* function) const noexcept {
  const auto owner = owner_of_function_.find(function);
  if (owner == owner_of_function_.end()) return nullptr;
  const auto module = modules_.find(owner->second);
  return module == modules_.end() ? nullptr : module->second.file;
}

// --- kernels ---

const void* KernelOwners::owner_of(const void* handle) const noexcept {
  if (const auto stub = binary_of_stub_.find(handle); stub != binary_of_stub_.end()) return stub->second;
  const auto function = owner_of_function_.find(handle);
  return function == owner_of_function_.end() ? nullptr : function->second;
}

/// Handles come back as those of others.
bool KernelOwners::stands_for(const void* handle, const KernelKey& kernel) const noexcept {
  PointerTable::Value value;
  return table_.find(handle, &value) && unpack(value).name == kernel.name && owner_of(handle) == kernel.owner;
}

std::vector<const void*> KernelOwners::handles_of(const KernelKey& kernel) const {
  std::vector<const void*> all;
  const auto add = [&](const std::vector<const void*>& handles) {
    std::copy_if(handles.begin(), handles.end(), std::back_inserter(all),
                 [&](const void* each) { return stands_for(each, kernel); });
  };
  const auto binary = binaries_.find(static_cast<void**>(const_cast<void*>(kernel.owner)));
  if (binary != binaries_.end()) {
    add(binary->second.stubs);
    add(binary->second.functions);
  }
  if (const auto module = modules_.find(kernel.owner); module != modules_.end()) add(module->second.functions);
  return all;
}

std::vector<const void*> KernelOwners::handles_of_kernel(const void* handle, const char* name) const {
  const void* const owner = owner_of(handle);
  return owner == nullptr || name == nullptr ? std::vector<const void*>() : handles_of({owner, name});
}

bool KernelOwners::has_setting(const void* handle, const char* name, KernelSetting setting,
                               std::uint64_t value) const noexcept {
  if (name == nullptr) return false;
  const auto known = set_kernels_.find({owner_of(handle), name});
  return known != set_kernels_.end() && known->second.settings.has(setting, value);
}

bool KernelOwners::set(const void* handle, const char* name, KernelSetting setting, std::uint64_t value, bool certain) {
  const KernelKey key{owner_of(handle), name};
  if (key.owner == nullptr || name == nullptr) return false;
  const auto [place, added] = set_kernels_.try_emplace(key);
  SetKernel& kernel = place->second;
  if (added) kernel.handles = handles_of(key);
  const std::uint64_t before = kernel.settings.number();
  if (seeded_defect(Seeded::kSettingsIgnored)) return true;
  if (!kernel.settings.set(setting, value, certain)) return false;
  if (kernel.settings.number() == before) return true;
  std::erase_if(kernel.handles, [&](const void* each) { return !stands_for(each, key); });
  for (const void* const each : kernel.handles) put_settings_number(each, kernel.settings.number());
  return true;
}

void KernelOwners::forget_settings() noexcept {
  for (const auto& [key, kernel] : set_kernels_)
    for (const void* const each : kernel.handles)
      if (stands_for(each, key)) put_settings_number(each, 0);
  set_kernels_.clear();
}

void KernelOwners::put_settings_number(const void* handle, std::uint64_t number) noexcept {
  PointerTable::Value value;
  if (!table_.find(handle, &value)) return;
  value[2] = (value[2] & kRegistrationMask) | number << kSettingsShift;
  if (!table_.put(handle, value)) table_.erase(handle);  // no memory: what it is captured with is unknown
}

KernelInfo KernelOwners::learn(const void* handle, const KernelInfo& asked, const std::vector<Argument>* arguments) {
  PointerTable::Value value;
  if (!table_.find(handle, &value)) return {};
  KernelInfo info = unpack(value);
  const bool same = (info.generation & kRegistrationMask) == (asked.generation & kRegistrationMask);
  if (!same || !info.may_be_asked) return info;
  info.may_be_asked = false;
  if (arguments != nullptr) info.layout = layouts_.intern(*arguments, false);
  table_.put(handle, pack(info));
  return info;
}

/// The generation of a new handle.
std::uint64_t KernelOwners::next_generation(const KernelKey& kernel, const void* handle) {
  ++last_generation_;
  const auto set = set_kernels_.find(kernel);
  if (set == set_kernels_.end()) return last_generation_;
  set->second.handles.push_back(handle);
  return last_generation_ | set->second.settings.number() << kSettingsShift;
}

const char* KernelOwners::keep_name(const char* name) {
  if (names_.size() >= kMaxNames) {
    const auto known = names_.find(name);
    return known == names_.end() ? nullptr : known->c_str();
  }
  return names_.emplace(name).first->c_str();
}

const ArgumentLayout* KernelOwners::layout_of(const KernelDescription* kernel) {
  return kernel == nullptr || !kernel->known ? nullptr : layouts_.intern(kernel->arguments, kernel->self_contained);
}

}  // namespace graphpool
