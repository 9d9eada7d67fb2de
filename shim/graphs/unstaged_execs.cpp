#include "shim/graphs/unstaged_execs.h"

#include <algorithm>
#include <utility>

#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"
#include "shim/memory/freed_memory.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/reissue.h"

namespace graphpool {
namespace {

/// Whether a node of the binding cannot be made once the memory is gone.
bool holds(const std::vector<Operation>& operations, const Binding& binding, const void* address, std::size_t bytes) {
  if (bytes == 0) return true;
  const auto first = reinterpret_cast<std::uint64_t>(address);
  return std::any_of(operations.begin(), operations.end(), [&](const Operation& operation) {
    if (launches_kernel(operation)) return false;
    const std::uint32_t end = operation.payload_offset + operation.signature.payload_bytes;
    for (std::uint32_t offset = operation.payload_offset; offset + sizeof(std::uint64_t) <= end;
         offset += sizeof(std::uint64_t))
      if (payload_at<std::uint64_t>(binding, offset) - first < bytes) return true;
    return false;
  });
}

/// Returns the pages that such nodes name as cannot be made once the pages are gone.
std::vector<std::uint64_t> pages_held(const std::vector<Operation>& operations, const Binding& binding) {
  Binding held;
  for (const Operation& operation : operations) {
    const std::byte* const payload = binding.begin() + operation.payload_offset;
    if (!launches_kernel(operation)) held.append(payload, payload + operation.signature.payload_bytes);
  }
  return MemoryIndex::pages_of(held);
}

}  // namespace

void UnstagedExecs::stop_watching(UnstagedExec& entry, std::uint64_t bindings,
                                  const std::vector<std::uint64_t>* pages) {
  const LockGuard guard(lock_);
  // If another binding comes now, bound() watches the entry again as soon as this lock is free.
  if (!list_.watches(entry) || entry.bindings.load() != bindings) return;
  if (pages != nullptr && !pages->empty())
    list_.find_by(entry, *pages);
  else
    list_.ignore(entry);
}

void UnstagedExecs::bound(Entry* entry, const Recording& recording, int device, const Binding& binding) {
  if (*entry == nullptr) {
    auto added = std::make_shared<UnstagedExec>(recording, device);
    {
      const LockGuard guard(added->lock);
      added->binding = binding;
    }
    const LockGuard guard(lock_);
    list_.add(added);
    *entry = std::move(added);
    return;
  }
  std::unique_ptr<Variant> former;
  {
    const LockGuard guard((*entry)->lock);
    (*entry)->binding = binding;
    ++(*entry)->bindings;
    (*entry)->looks = 0;
    former = std::move((*entry)->made);
  }
  const LockGuard guard(lock_);
  list_.watch(**entry);
}

std::unique_ptr<Variant> UnstagedExecs::take(Entry* entry) noexcept {
  if (*entry == nullptr) return nullptr;
  const Entry taken = std::move(*entry);
  {
    const LockGuard guard(lock_);
    list_.remove(*taken);
  }
  const LockGuard guard(taken->lock);
  taken->ended = true;
  return std::move(taken->made);
}

std::unique_ptr<Variant> UnstagedExecs::take_made(const Entry& entry) noexcept {
  if (entry == nullptr) return nullptr;
  const LockGuard guard(entry->lock);
  return std::move(entry->made);
}

std::vector<UnstagedExecs::Entry> UnstagedExecs::that_may_name(const void* address, std::size_t bytes) {
  const LockGuard guard(lock_);
  return list_.that_may_name(address, bytes);
}

void UnstagedExecs::before_memory_is_freed(const void* address, std::size_t bytes) {
  for (const Entry& entry : that_may_name(address, bytes)) {
    const auto names = [&](const UnstagedExec& each) {
      assume_held(each.lock);
      return holds(each.recording.operations, each.binding, address, bytes);
    };
    std::uint64_t bindings = 0;
    std::vector<std::uint64_t> pages;
    bool looked_enough = false;
    {
      const LockGuard guard(entry->lock);
      if (entry->ended || entry->made != nullptr) continue;
      if (!names(*entry)) {
        if (++entry->looks != MemoryWatchList<UnstagedExec>::kLooks) continue;
        bindings = entry->bindings.load();
        pages = pages_held(entry->recording.operations, entry->binding);
        looked_enough = true;
      }
    }
    if (looked_enough)
      stop_watching(*entry, bindings, &pages);
    else
      make(entry, names);
  }
}

void UnstagedExecs::make_with(OperationTest test) {
  const auto names = [&](const UnstagedExec& each) {
    return std::any_of(each.recording.operations.begin(), each.recording.operations.end(),
                       [&](const Operation& operation) { return graphpool::holds(operation, test); });
  };
  for (const Entry& entry : that_may_name(nullptr, 0)) make(entry, names);
}

/// Makes the exec, if the binding that it has now names what is about to go.
void UnstagedExecs::make(const Entry& entry, Names names) {
  const PrivateCalls private_calls;
  auto made = std::make_unique<Variant>();
  made->memory_freed = memory_freed();
  std::uint64_t bindings = 0;
  {
    const LockGuard guard(entry->lock);
    if (entry->ended || entry->made != nullptr || !names(*entry)) return;
    if (build_graph(entry->recording.operations, entry->binding, &made->graph, &made->nodes) != hipSuccess) return;
    made->bake(entry->binding);
    bindings = entry->bindings.load();
  }
  made->device = entry->device;
  {
    const SavedDevice device(entry->device);
    if (made_private(next().hipGraphInstantiate(&made->exec, made->graph, nullptr, nullptr, 0), &made->exec) !=
        hipSuccess) {
      made->exec = nullptr;
      return;
    }
  }
  {
    const LockGuard guard(entry->lock);
    if (entry->ended || entry->made != nullptr || entry->bindings.load() != bindings) return;
    entry->made = std::move(made);
  }
  stop_watching(*entry, bindings, nullptr);
}

}  // namespace graphpool
