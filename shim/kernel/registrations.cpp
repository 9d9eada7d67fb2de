#include "shim/kernel/registrations.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>

namespace graphpool {
namespace {

/// The argument of __hipRegisterFatBinary; part of the ABI.
struct FatBinaryWrapper {
  std::uint32_t magic, version;
  const void* binary;
  const void* unused;
};
constexpr std::uint32_t kWrapperMagic = 0x48495046, kWrapperVersion = 1;

Registration* make(const Registration& fields, std::string_view name) noexcept {
  void* memory = ::operator new(sizeof(Registration) + name.size() + 1, std::nothrow);
  if (memory == nullptr) return nullptr;
  auto* made = new (memory) Registration(fields);
  char* text = reinterpret_cast<char*>(made + 1);
  std::copy(name.begin(), name.end(), text);
  text[name.size()] = '\0';
  return made;
}

/// Stands in the list while what was in it is handed over: until then waiting() must be true.
constinit Registration g_mark{};

}  // namespace

void Registrations::push(Registration* registration) noexcept {
  if (registration == nullptr) return;
  registration->next = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(registration->next, registration, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
}

void Registrations::add_fat_binary(void** handle, const void* wrapper) noexcept {
  FatBinaryWrapper fields;
  if (handle == nullptr || wrapper == nullptr) return;
  std::memcpy(&fields, wrapper, sizeof fields);
  // Not readable is "HIPK", for instance, whose binary is in an archive elsewhere.
  const bool readable = fields.magic == kWrapperMagic && fields.version == kWrapperVersion && fields.binary != nullptr;
  push(make({nullptr, handle, readable ? fields.binary : wrapper, nullptr, readable}, ""));
}

void Registrations::add_stub(void** handle, const void* stub, const char* device_name) noexcept {
  if (handle == nullptr || stub == nullptr || device_name == nullptr) return;
  push(make({nullptr, handle, nullptr, stub, false}, device_name));
}

void Registrations::drain(FunctionRef<void(const Registration& registration)> enter) noexcept {
  for (Registration* newest = newest_.load(std::memory_order_acquire); newest != nullptr;) {
    if (newest == &g_mark && newest_.compare_exchange_weak(newest, nullptr, std::memory_order_release)) return;
    Registration* oldest = nullptr;
    for (Registration* each = newest_.exchange(&g_mark, std::memory_order_acquire);
         each != nullptr && each != &g_mark;) {
      Registration* next = each->next;
      each->next = oldest;
      oldest = each;
      each = next;
    }
    while (oldest != nullptr) {
      try {
        enter(*oldest);
      } catch (const std::bad_alloc&) {
      }
      Registration* done = oldest;
      oldest = oldest->next;
      ::operator delete(done);
    }
    newest = &g_mark;
  }
}

}  // namespace graphpool
