#include "shim/memory/mapped_kinds.h"

#include <cstring>
#include <iterator>
#include <new>

namespace graphpool {
namespace {

std::uint64_t number(const void* address) noexcept { return reinterpret_cast<std::uint64_t>(address); }

}  // namespace

MappedKinds& mapped_kinds() noexcept {
  static MappedKinds* const instance = new MappedKinds;
  return *instance;
}

void MappedKinds::made(Handle handle, const hipMemAllocationProp* properties) noexcept {
  const LockGuard guard(lock_);
  kinds_.erase(handle);
  if (properties == nullptr || kinds_.size() >= kMost) return;
  Kind kind;
  std::memcpy(kind.data(), properties, kind.size());
  try {
    kinds_.emplace(handle, kind);
  } catch (const std::bad_alloc&) {
  }
}

void MappedKinds::also(Handle handle, const void* mapped) noexcept {
  const LockGuard guard(lock_);
  auto holder = mappings_.upper_bound(number(mapped));
  if (holder == mappings_.begin() || (--holder)->second.unmapped != 0 ||
      number(mapped) - holder->first >= holder->second.bytes) {
    kinds_.erase(handle);
    return;
  }
  try {
    kinds_[handle] = holder->second.kind;
  } catch (const std::bad_alloc&) {
    kinds_.erase(handle);
  }
}

std::uint64_t MappedKinds::unmapped_when(const void* base, std::size_t bytes, std::size_t offset,
                                         Handle handle) noexcept {
  const LockGuard guard(lock_);
  const auto kind = kinds_.find(handle);
  const auto before = mappings_.find(number(base));
  if (kind == kinds_.end() || before == mappings_.end()) return 0;
  const Mapping& was = before->second;
  return was.bytes == bytes && was.offset == offset && was.kind == kind->second ? was.unmapped : 0;
}

void MappedKinds::mapped(const void* base, std::size_t bytes, std::size_t offset, Handle handle) noexcept {
  const LockGuard guard(lock_);
  // The new mapping replaces every mapping that it overlaps.
  const std::uint64_t first = number(base), end = first + bytes;
  auto mapping = mappings_.upper_bound(first);
  if (mapping != mappings_.begin() && std::prev(mapping)->first + std::prev(mapping)->second.bytes > first) --mapping;
  while (mapping != mappings_.end() && mapping->first < end) mapping = mappings_.erase(mapping);
  const auto kind = kinds_.find(handle);
  if (kind == kinds_.end() || mappings_.size() >= kMost) return;
  try {
    mappings_[first] = {bytes, offset, kind->second, 0};
  } catch (const std::bad_alloc&) {
  }
}

void MappedKinds::unmapped(const void* base, std::size_t bytes, std::uint64_t when) noexcept {
  const LockGuard guard(lock_);
  const std::uint64_t first = number(base), end = first + bytes;
  for (auto mapping = mappings_.lower_bound(first); mapping != mappings_.end() && mapping->first < end; ++mapping)
    if (mapping->second.unmapped == 0) mapping->second.unmapped = when;
}

}  // namespace graphpool
