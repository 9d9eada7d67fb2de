#include "shim/graph/unstaged_execs.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "shim/graph/reissue.h"
#include "shim/memory/freed_memory.h"
#include "shim/next.h"
#include "shim/restore.h"

namespace graphpool {
namespace {

/// Whether a node of the binding cannot be made once the memory is gone.
bool holds(const std::vector<Operation>& operations, const Binding& binding, const void* address, std::size_t bytes) {
  if (bytes == 0) return true;
  const auto first = reinterpret_cast<std::uint64_t>(address);
  return std::any_of(operations.begin(), operations.end(), [&](const Operation& operation) {
    if (operation.signature.kind == OperationKind::kKernel) return false;
    const std::uint32_t end = operation.payload_offset + operation.signature.payload_bytes;
    for (std::uint32_t at = operation.payload_offset; at + sizeof(std::uint64_t) <= end; at += sizeof(std::uint64_t))
      if (payload_at<std::uint64_t>(binding, at) - first < bytes) return true;
    return false;
  });
}

}  // namespace

void UnstagedExecs::bound(std::shared_ptr<UnstagedExec>* entry, const Template& of, int device,
                          const Binding& binding) {
  if (*entry == nullptr) {
    auto added = std::make_shared<UnstagedExec>(of, device);
    added->binding = binding;
    const std::scoped_lock guard(lock_);
    entries_.push_back(added);
    *entry = std::move(added);
    return;
  }
  std::unique_ptr<Variant> old;
  const std::scoped_lock guard((*entry)->lock);
  (*entry)->binding = binding;
  ++(*entry)->bindings;
  old = std::move((*entry)->made);
}

std::unique_ptr<Variant> UnstagedExecs::take(std::shared_ptr<UnstagedExec>* entry) noexcept {
  if (*entry == nullptr) return nullptr;
  const std::shared_ptr<UnstagedExec> taken = std::move(*entry);
  {
    const std::scoped_lock guard(lock_);
    std::erase(entries_, taken);
  }
  const std::scoped_lock guard(taken->lock);
  taken->gone = true;
  return std::move(taken->made);
}

std::vector<std::shared_ptr<UnstagedExec>> UnstagedExecs::all() const {
  const std::scoped_lock guard(lock_);
  return entries_;
}

void UnstagedExecs::memory_leaves(const void* address, std::size_t bytes) {
  for (const auto& entry : all()) {
    const auto wanted = [&] {
      return !entry->gone && entry->made == nullptr && holds(entry->of.operations, entry->binding, address, bytes);
    };
    {
      const std::scoped_lock guard(entry->lock);
      if (!wanted()) continue;
    }
    const PrivateCalls private_calls;
    auto made = std::make_unique<Variant>();
    made->memory_freed = memory_freed();
    std::uint64_t bindings = 0;
    {
      const std::scoped_lock guard(entry->lock);
      if (!wanted()) continue;
      if (build_graph(entry->of.operations, entry->binding, &made->graph, &made->nodes) != hipSuccess) continue;
      made->baked = entry->binding;
      bindings = entry->bindings;
    }
    made->device = entry->device;
    {
      const SavedDevice device(entry->device);
      if (next().hipGraphInstantiate(&made->exec, made->graph, nullptr, nullptr, 0) != hipSuccess) {
        made->exec = nullptr;
        continue;
      }
    }
    const std::scoped_lock guard(entry->lock);
    if (!entry->gone && entry->bindings == bindings && entry->made == nullptr) entry->made = std::move(made);
  }
}

}  // namespace graphpool
