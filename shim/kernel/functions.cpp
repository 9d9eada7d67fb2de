#include "shim/kernel/functions.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <compare>
#include <condition_variable>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "shim/base/guest_scope.h"
#include "shim/base/seeded_defect.h"
#include "shim/kernel/asked_kernels.h"
#include "shim/kernel/code_object.h"

namespace graphpool {
namespace {

/// What __hipRegisterFatBinary is given; part of the ABI.
struct FatBinaryWrapper {
  std::uint32_t magic, version;
  const void* binary;
  const void* unused;
};
constexpr std::uint32_t kWrapperMagic = 0x48495046, kWrapperVersion = 1;

/// In place of a layout's address: the stub's binary has not been read; the runtime has not been asked. Layouts are
/// aligned.
constexpr std::uint64_t kUnread = 1, kUnasked = 2;
static_assert(alignof(ArgumentLayout) > kUnasked);

/// A generation: that of the registration, and above it the number of what is set of the kernel.
constexpr int kSettingsShift = 40;
static_assert(KernelSettings::kMostNumbers <= std::uint64_t{1} << (64 - kSettingsShift));
constexpr std::uint64_t kRegistrationMask = (std::uint64_t{1} << kSettingsShift) - 1;

PointerTable::Value pack(const KernelInfo& info) noexcept {
  const auto layout = reinterpret_cast<std::uint64_t>(info.layout);
  return {info.may_be_asked ? kUnasked : layout, reinterpret_cast<std::uint64_t>(info.name), info.generation};
}

KernelInfo unpack(const PointerTable::Value& value) noexcept {
  const auto* const layout = value[0] <= kUnasked ? nullptr : reinterpret_cast<const ArgumentLayout*>(value[0]);
  return {layout, reinterpret_cast<const char*>(value[1]), value[2], value[0] == kUnasked};
}

}  // namespace

/// A registration as it came in. The device name follows the structure.
struct Functions::Event {
  Event* next;
  void** handle;
  const void* image;  ///< of a fat binary, or what stands for it; null: this is a stub
  const void* stub;
  bool readable;  ///< that is an image

  const char* name() const noexcept { return reinterpret_cast<const char*>(this + 1); }

  static Event* make(void** handle, const void* image, bool readable, const void* stub,
                     std::string_view name) noexcept {
    void* memory = ::operator new(sizeof(Event) + name.size() + 1, std::nothrow);
    if (memory == nullptr) return nullptr;
    auto* event = new (memory) Event{nullptr, handle, image, stub, readable};
    char* text = reinterpret_cast<char*>(event + 1);
    std::copy(name.begin(), name.end(), text);
    text[name.size()] = '\0';
    return event;
  }

  /// Stands at the end of the list while what was in it is entered: find() must not take the list for empty before.
  static Event* entering() noexcept {
    static constinit Event mark{};
    return &mark;
  }
};

struct Functions::State {
  struct Binary {
    const void* image = nullptr;
    bool readable = false;
    std::uint64_t reader = 0;            ///< who is reading it; 0: nobody
    std::vector<const void*> stubs;      ///< those this binary registered first
    std::vector<const void*> functions;  ///< handles that stand for one of them
  };
  struct Module {
    std::unordered_map<std::string, const ArgumentLayout*> layouts;
    std::vector<const void*> functions;
    const char* file = nullptr;  ///< it was loaded from; null: none
  };

  struct Variable {
    std::uintptr_t end;
    const void* module;
  };

  /// A kernel of which something was set: what a binary or a module has by this name.
  struct KernelKey {
    const void* owner;
    const char* name;  ///< kept

    auto operator<=>(const KernelKey&) const = default;
  };
  struct SetKernel {
    KernelSettings settings;
    std::vector<const void*> handles;
  };

  LayoutPool layouts;
  std::unordered_set<std::string> names;
  std::unordered_map<void**, Binary> binaries;
  std::unordered_map<const void*, void**> binary_of_stub;
  std::unordered_map<const void*, Module> modules;
  std::map<std::uintptr_t, Variable> variables;                    ///< by their beginnings; they do not overlap
  std::unordered_map<const void*, const void*> owner_of_function;  ///< a module, or the handle of a binary
  std::map<KernelKey, SetKernel> set_kernels;
  std::uint64_t last_generation = 0, last_reader = 0;
  std::condition_variable_any was_read;

  const void* owner_of(const void* handle) const noexcept {
    if (const auto stub = binary_of_stub.find(handle); stub != binary_of_stub.end()) return stub->second;
    const auto function = owner_of_function.find(handle);
    return function == owner_of_function.end() ? nullptr : function->second;
  }
  void forget_settings_of(const void* owner) noexcept {
    std::erase_if(set_kernels, [owner](const auto& each) { return each.first.owner == owner; });
  }
  /// The generation of a new handle.
  std::uint64_t next_generation(const void* owner, const char* name, const void* handle) {
    ++last_generation;
    const auto set = set_kernels.find({owner, name});
    if (set == set_kernels.end()) return last_generation;
    set->second.handles.push_back(handle);
    return last_generation | set->second.settings.number() << kSettingsShift;
  }

  const char* keep_name(const char* name) {
    if (names.size() >= kMaxNames) {
      const auto known = names.find(name);
      return known == names.end() ? nullptr : known->c_str();
    }
    return names.emplace(name).first->c_str();
  }

  const ArgumentLayout* layout_of(const KernelDescription* kernel) {
    return kernel == nullptr || !kernel->known ? nullptr : layouts.intern(kernel->arguments, kernel->self_contained);
  }
};

Functions::State& Functions::state() {
  if (state_ == nullptr) state_ = new State;
  return *state_;
}

void Functions::push(Event* event) noexcept {
  if (event == nullptr) return;  // no memory: the stub stays unknown
  event->next = events_.load(std::memory_order_relaxed);
  while (!events_.compare_exchange_weak(event->next, event, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void Functions::on_fat_binary_registered(void** handle, const void* wrapper) noexcept {
  FatBinaryWrapper fields;
  if (handle == nullptr || wrapper == nullptr) return;
  std::memcpy(&fields, wrapper, sizeof fields);
  // Such as "HIPK", whose binary is in an archive elsewhere.
  const bool readable = fields.magic == kWrapperMagic && fields.version == kWrapperVersion && fields.binary != nullptr;
  push(Event::make(handle, readable ? fields.binary : wrapper, readable, nullptr, ""));
}

void Functions::on_function_registered(void** handle, const void* stub, const char* device_name) noexcept {
  if (handle == nullptr || stub == nullptr || device_name == nullptr) return;
  push(Event::make(handle, nullptr, false, stub, device_name));
}

/// Enters what was registered, oldest first; reads no binary. The list is empty only when all of it can be found. What
/// memory does not suffice for stays unknown.
void Functions::drain_events() noexcept {
  Event* const mark = Event::entering();
  for (Event* newest = events_.load(std::memory_order_acquire); newest != nullptr;) {
    if (newest == mark && events_.compare_exchange_weak(newest, nullptr, std::memory_order_release)) return;
    Event* oldest = nullptr;
    for (Event* event = events_.exchange(mark, std::memory_order_acquire); event != nullptr && event != mark;) {
      Event* next = event->next;
      event->next = oldest;
      oldest = event;
      event = next;
    }
    while (oldest != nullptr) {
      try {
        enter(*oldest);
      } catch (const std::bad_alloc&) {
      }
      Event* done = oldest;
      oldest = oldest->next;
      ::operator delete(done);
    }
    newest = mark;
  }
}

void Functions::enter(const Event& event) {
  State& all = state();
  const auto there = all.binaries.find(event.handle);
  if (event.image != nullptr) {
    if (there != all.binaries.end() && there->second.image == event.image) return;  // the runtime answers the same
    forget_binary(event.handle);
    State::Binary& added = all.binaries[event.handle];
    added.image = event.image;
    added.readable = event.readable;
    return;
  }
  if (there == all.binaries.end() || all.binary_of_stub.contains(event.stub)) return;
  const char* name = all.keep_name(event.name());
  there->second.stubs.push_back(event.stub);
  all.binary_of_stub.emplace(event.stub, event.handle);
  PointerTable::Value value = pack({nullptr, name, all.next_generation(event.handle, name, event.stub)});
  if (name != nullptr) value[0] = kUnread;
  table_.put(event.stub, value);
}

void Functions::forget_functions(const std::vector<const void*>& functions, const void* owner) noexcept {
  for (const void* function : functions) {
    const auto owned = state_->owner_of_function.find(function);
    if (owned == state_->owner_of_function.end() || owned->second != owner) continue;  // the handle has moved on
    table_.erase(function);
    state_->owner_of_function.erase(owned);
  }
}

void Functions::forget_binary(void** handle) noexcept {
  if (state_ == nullptr) return;
  const auto gone = state_->binaries.find(handle);
  if (gone == state_->binaries.end()) return;
  for (const void* stub : gone->second.stubs) {
    table_.erase(stub);
    state_->binary_of_stub.erase(stub);
  }
  forget_functions(gone->second.functions, handle);
  state_->forget_settings_of(handle);
  state_->binaries.erase(gone);
}

void Functions::forget_module(const void* module) noexcept {
  if (state_ == nullptr || seeded_defect(Seeded::kUnloadLeavesFunctions)) return;
  const auto gone = state_->modules.find(module);
  if (gone == state_->modules.end()) return;
  forget_functions(gone->second.functions, module);
  state_->forget_settings_of(module);
  std::erase_if(state_->variables, [module](const auto& each) { return each.second.module == module; });
  state_->modules.erase(gone);
}

void Functions::on_fat_binary_unregistered(void** handle) noexcept {
  UniqueLock lock(mutex_);
  drain_events();
  const auto is_read = [&] {
    assume_held(mutex_);
    const auto binary = state_->binaries.find(handle);
    return binary != state_->binaries.end() && binary->second.reader != 0;
  };
  while (state_ != nullptr && is_read()) state_->was_read.wait(lock);
  forget_binary(handle);
}

void Functions::on_module_unloaded(const void* module) noexcept {
  const LockGuard lock(mutex_);
  forget_module(module);
}

std::vector<const void*> Functions::handles_of_module(const void* module) {
  const LockGuard lock(mutex_);
  if (state_ == nullptr) return {};
  const auto found = state_->modules.find(module);
  if (found == state_->modules.end()) return {};
  std::vector<const void*> all;
  std::copy_if(found->second.functions.begin(), found->second.functions.end(), std::back_inserter(all),
               [&](const void* each) {
                 assume_held(mutex_);
                 return state_->owner_of(each) == module;
               });
  return all;
}

KernelInfo Functions::find(const void* key) noexcept {
  if (events_.load(std::memory_order_acquire) == nullptr) {
    PointerTable::Value value;
    if (!table_.find(key, &value)) return {};
    if (value[0] != kUnread) return unpack(value);
  }
  try {
    return find_slowly(key);
  } catch (const std::bad_alloc&) {
    return {};
  }
}

/// Enters what is new and reads the binary the stub belongs to.
KernelInfo Functions::find_slowly(const void* key) {
  UniqueLock lock(mutex_);
  drain_events();
  for (;;) {
    PointerTable::Value value;
    if (!table_.find(key, &value)) return {};
    if (value[0] != kUnread) return unpack(value);
    void** const handle = state_->binary_of_stub.at(key);
    if (state_->binaries.at(handle).reader != 0) {
      state_->was_read.wait(lock);
      continue;
    }
    const Reading reading = begin_reading(handle);
    lock.unlock();
    KernelSet kernels;
    const bool usable =
        reading.image != nullptr && read_image(reading.image, &kernels, device_architectures()) == Status::kOk;
    lock.lock();
    end_reading(handle, reading, usable ? &kernels : nullptr);
  }
}

Functions::Reading Functions::begin_reading(void** handle) {
  State::Binary& binary = state_->binaries.at(handle);
  binary.reader = ++state_->last_reader;
  return {binary.reader, binary.readable ? binary.image : nullptr};
}

/// `kernels`: what was read; null: nothing could be.
void Functions::end_reading(void** handle, const Reading& reading, const KernelSet* kernels) {
  state_->was_read.notify_all();
  const auto found = state_->binaries.find(handle);
  if (found == state_->binaries.end() || found->second.reader != reading.number) return;
  found->second.reader = 0;
  for (const void* stub : found->second.stubs) {
    PointerTable::Value entry;
    if (!table_.find(stub, &entry) || entry[0] != kUnread) continue;
    KernelInfo info = unpack(entry);
    const KernelDescription* const kernel = kernels != nullptr ? kernels->find(info.name) : nullptr;
    info.layout = state_->layout_of(kernel);
    info.may_be_asked = kernel == nullptr;
    table_.put(stub, pack(info));
  }
}

/// Also when the module could not be read: its functions are known, their layouts are not.
Status Functions::add_module(const void* module, Status read, const KernelSet& kernels, const char* file) noexcept {
  try {
    const LockGuard lock(mutex_);
    forget_module(module);  // an unload nobody saw: the handle has been used again
    State::Module& added = state().modules[module];
    if (file != nullptr) added.file = state_->keep_name(file);
    if (read != Status::kOk) return read;
    for (const auto& [name, kernel] : kernels.kernels()) added.layouts.emplace(name, state_->layout_of(&kernel));
    return Status::kOk;
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
      // Mapped, not read: such files may be hundreds of megabytes and only their notes are looked at.
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

bool Functions::still_there(const void* stub_or_function, std::uint64_t generation) noexcept {
  const std::uint64_t now = find(stub_or_function).generation;
  return now != 0 && ((now ^ generation) & kRegistrationMask) == 0;
}

bool Functions::is_stub(const void* address) noexcept {
  const LockGuard lock(mutex_);
  return state_ != nullptr && state_->binary_of_stub.contains(address);
}

KernelInfo Functions::learn(const void* key, const KernelInfo& asked, const std::vector<Argument>* arguments) noexcept {
  try {
    const LockGuard lock(mutex_);
    PointerTable::Value value;
    if (!table_.find(key, &value)) return {};
    KernelInfo info = unpack(value);
    const bool same = (info.generation & kRegistrationMask) == (asked.generation & kRegistrationMask);
    if (!same || !info.may_be_asked) return info;
    info.may_be_asked = false;
    if (arguments != nullptr) info.layout = state_->layouts.intern(*arguments, false);
    table_.put(key, pack(info));
    return info;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

const char* Functions::file_of(const void* function) noexcept {
  const LockGuard lock(mutex_);
  if (state_ == nullptr) return nullptr;
  const auto owner = state_->owner_of_function.find(function);
  if (owner == state_->owner_of_function.end()) return nullptr;
  const auto module = state_->modules.find(owner->second);
  return module == state_->modules.end() ? nullptr : module->second.file;
}

/// A function its owner already has, of the same kernel, keeps its generation.
Status Functions::add_function(const void* owner, std::vector<const void*>* functions, const void* function,
                               KernelInfo info) {
  const auto [known, added] = state_->owner_of_function.try_emplace(function, owner);
  PointerTable::Value value;
  if (!added && known->second == owner && info.name != nullptr && table_.find(function, &value)) {
    const KernelInfo before = unpack(value);
    if (before.name == info.name && (before.layout == info.layout || info.may_be_asked)) return Status::kOk;
  }
  if (added || known->second != owner) functions->push_back(function);
  known->second = owner;
  info.generation = state_->next_generation(owner, info.name, function);
  if (!table_.put(function, pack(info))) return Status::kNoMemory;
  return info.layout == nullptr ? Status::kNotFound : Status::kOk;
}

void Functions::on_variable_found(const void* module, const void* address, std::size_t bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  if (begin == 0 || bytes == 0 || begin + bytes < begin) return;
  try {
    const LockGuard lock(mutex_);
    static_cast<void>(state().modules[module]);  // made here when the module came before us
    auto& variables = state_->variables;
    // What was there is gone, although nobody saw it go.
    std::erase_if(variables, [&](const auto& each) { return each.first < begin + bytes && each.second.end > begin; });
    variables[begin] = {begin + bytes, module};
  } catch (const std::bad_alloc&) {
  }
}

const void* Functions::module_of_variable(const void* address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const LockGuard lock(mutex_);
  if (state_ == nullptr) return nullptr;
  const auto behind = state_->variables.upper_bound(at);
  if (behind == state_->variables.begin()) return nullptr;
  const State::Variable& variable = std::prev(behind)->second;
  return at < variable.end ? variable.module : nullptr;
}

Status Functions::on_function_found(const void* module, const char* name, const void* function) noexcept {
  if (name == nullptr || function == nullptr) return Status::kMalformed;
  try {
    const LockGuard lock(mutex_);
    State::Module& owner = state().modules[module];  // made here when the module came before us
    const auto layout = owner.layouts.find(name);
    const bool known = layout != owner.layouts.end();
    const KernelInfo info{known ? layout->second : nullptr, state_->keep_name(name), 0, !known};
    return add_function(module, &owner.functions, function, info);
  } catch (const std::bad_alloc&) {
    return Status::kNoMemory;
  }
}

Status Functions::on_function_of_stub(const void* stub, const void* function) noexcept {
  if (function == nullptr) return Status::kMalformed;
  const KernelInfo info = find(stub);
  try {
    const LockGuard lock(mutex_);
    if (state_ == nullptr) return Status::kNotFound;
    const auto handle = state_->binary_of_stub.find(stub);
    if (!info.registered() || handle == state_->binary_of_stub.end()) return Status::kNotFound;
    return add_function(handle->second, &state_->binaries.at(handle->second).functions, function, info);
  } catch (const std::bad_alloc&) {
    return Status::kNoMemory;
  }
}

bool Functions::knows_kernel(const void* handle) noexcept { return find(handle).name != nullptr; }

bool Functions::has_setting(const void* handle, KernelSetting setting, std::uint64_t value) noexcept {
  const KernelInfo info = find(handle);
  const LockGuard lock(mutex_);
  if (state_ == nullptr || info.name == nullptr) return false;
  const auto known = state_->set_kernels.find({state_->owner_of(handle), info.name});
  return known != state_->set_kernels.end() && known->second.settings.has(setting, value);
}

void Functions::put_settings_number(const void* handle, std::uint64_t number) noexcept {
  PointerTable::Value value;
  if (!table_.find(handle, &value)) return;
  value[2] = (value[2] & kRegistrationMask) | number << kSettingsShift;
  if (!table_.put(handle, value)) table_.erase(handle);  // no memory: what it is captured with is unknown
}

bool Functions::set(const void* handle, KernelSetting setting, std::uint64_t value, bool certain) noexcept {
  const KernelInfo info = find(handle);
  try {
    const LockGuard lock(mutex_);
    const void* const owner = state_ == nullptr ? nullptr : state_->owner_of(handle);
    if (owner == nullptr || info.name == nullptr) return false;
    const auto [at, added] = state_->set_kernels.try_emplace({owner, info.name});
    State::SetKernel& kernel = at->second;
    if (added) kernel.handles = handles_of(owner, info.name);
    const std::uint64_t before = kernel.settings.number();
    if (seeded_defect(Seeded::kSettingsIgnored)) return true;
    if (!kernel.settings.set(setting, value, certain)) return false;
    if (kernel.settings.number() == before) return true;
    std::erase_if(kernel.handles, [&](const void* each) {
      assume_held(mutex_);
      return !stands_for(each, owner, info.name);
    });
    for (const void* const each : kernel.handles) put_settings_number(each, kernel.settings.number());
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Functions::forget_settings() noexcept {
  const LockGuard lock(mutex_);
  if (state_ == nullptr) return;
  for (const auto& [key, kernel] : state_->set_kernels)
    for (const void* const each : kernel.handles)
      if (stands_for(each, key.owner, key.name)) put_settings_number(each, 0);
  state_->set_kernels.clear();
}

std::vector<const void*> Functions::handles_of_same_kernel(const void* handle) {
  const KernelInfo info = find(handle);
  const LockGuard lock(mutex_);
  const void* const owner = state_ == nullptr ? nullptr : state_->owner_of(handle);
  return owner == nullptr || info.name == nullptr ? std::vector<const void*>() : handles_of(owner, info.name);
}

/// Handles come back as those of others.
bool Functions::stands_for(const void* handle, const void* owner, const char* name) const noexcept {
  PointerTable::Value value;
  return table_.find(handle, &value) && unpack(value).name == name && state_->owner_of(handle) == owner;
}

/// Of what a binary or a module has by this name.
std::vector<const void*> Functions::handles_of(const void* owner, const char* name) const {
  std::vector<const void*> all;
  const auto add = [&](const std::vector<const void*>& handles) {
    std::copy_if(handles.begin(), handles.end(), std::back_inserter(all), [&](const void* each) {
      assume_held(mutex_);
      return stands_for(each, owner, name);
    });
  };
  const auto binary = state_->binaries.find(static_cast<void**>(const_cast<void*>(owner)));
  if (binary != state_->binaries.end()) {
    add(binary->second.stubs);
    add(binary->second.functions);
  }
  if (const auto module = state_->modules.find(owner); module != state_->modules.end()) add(module->second.functions);
  return all;
}

Functions& functions() noexcept {
  static constinit Functions all;  // trivially destructible: never destroyed
  return all;
}

}  // namespace graphpool
