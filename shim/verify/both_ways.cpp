#include "shim/verify/both_ways.h"

#include <algorithm>
#include <cstring>

#include "shim/base/lock_rank.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/shared_memory.h"
#include "shim/recording/operation_functions.h"

namespace graphpool {
namespace {

struct Left {
  RankedMutex<LockRank::kSlots> lock;
  std::vector<char*> shadows GUARDED_BY(lock);
};
Left& left() noexcept {
  static Left* const instance = new Left;
  return *instance;
}

bool may_be_address(std::uint64_t word) {
  return block_table().find(reinterpret_cast<const void*>(word)) != nullptr || shared_memory().knows(word);
}

/// Calls visit(place, word) for every word that is not 0.
template <typename Visit>
void for_each_word(std::vector<char>& bytes, Visit&& visit) {
  std::uint64_t word;
  for (std::size_t offset = 0; offset + sizeof word <= bytes.size(); offset += sizeof word) {
    std::memcpy(&word, bytes.data() + offset, sizeof word);
    if (word != 0) visit(bytes.data() + offset, word);
  }
}

}  // namespace

bool may_run_both_ways(const std::vector<Operation>& operations, const Binding& binding, const StagePlan& plan) {
  const bool seen_whole = std::all_of(operations.begin(), operations.end(), [](const Operation& operation) {
    return with_kind(operation.signature.kind, [&](auto kind) { return kind.is_seen_whole(operation); });
  });
  const auto is_address = [](std::uint64_t word) { return may_be_address(word) || runtime_knows(word); };
  return seen_whole && !any_hidden_word(operations, binding, is_address) && plan.covers(operations, binding);
}

void Shadows::drop() noexcept {
  if (shadows_.empty()) return;
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  for (char* const shadow : shadows_)
    if (shadow != nullptr) static_cast<void>(next().hipFree(shadow));
  shadows_.clear();
}

void Shadows::leave() noexcept {
  const LockGuard guard(left().lock);
  try {
    left().shadows.insert(left().shadows.end(), shadows_.begin(), shadows_.end());
  } catch (const std::bad_alloc&) {
  }
  shadows_.clear();
}

void Shadows::free_left() noexcept {
  Shadows all;
  const LockGuard guard(left().lock);
  all.shadows_.swap(left().shadows);
}

hipError_t Shadows::allocate(const StagePlan& plan) {
  plan_ = &plan;
  shadows_.assign(plan.buffers(), nullptr);
  for (std::size_t i = 0; i < shadows_.size(); ++i) {
    const hipError_t result = memory_room().retry_after_trim(
        plan.device(), [&] { return next().hipMalloc(reinterpret_cast<void**>(&shadows_[i]), plan.bytes(i)); });
    if (result != hipSuccess) {
      shadows_[i] = nullptr;
      return result;
    }
  }
  return hipSuccess;
}

hipError_t Shadows::copy_from(const std::vector<char*>& bases, hipStream_t stream) {
  for (std::size_t i = 0; i < shadows_.size(); ++i) {
    const hipError_t result =
        next().hipMemcpyAsync(shadows_[i], bases[i], plan_->bytes(i), hipMemcpyDeviceToDevice, stream);
    if (result != hipSuccess) return result;
  }
  return hipSuccess;
}

/// Fetches bytes to the host, and waits for them, because the host memory must not go before.
hipError_t Shadows::fetch(const char* from, std::size_t bytes, hipStream_t stream, std::vector<char>* to) const {
  to->resize(bytes);
  const hipError_t result = next().hipMemcpyAsync(to->data(), from, bytes, hipMemcpyDeviceToHost, stream);
  const hipError_t waited = next().hipStreamSynchronize(stream);
  return result != hipSuccess ? result : waited;
}

/// Fetches a part of what the buffer has, and of what its shadow has, with addresses in shadows replaced by those in
/// the buffers.
hipError_t Shadows::fetch_both(const Part& part, const std::vector<char*>& bases, hipStream_t stream,
                               std::vector<char>* program, std::vector<char>* shadow) const {
  hipError_t result = fetch(bases[part.buffer] + part.offset, part.bytes, stream, program);
  if (result == hipSuccess) result = fetch(shadows_[part.buffer] + part.offset, part.bytes, stream, shadow);
  if (result != hipSuccess || *program == *shadow) return result;
  for_each_word(*shadow, [&](char* place, std::uint64_t word) {
    for (std::size_t i = 0; i < shadows_.size(); ++i) {
      const std::uint64_t offset = word - reinterpret_cast<std::uint64_t>(shadows_[i]);
      if (offset >= plan_->bytes(i)) continue;
      const std::uint64_t meant = reinterpret_cast<std::uint64_t>(bases[i]) + offset;
      std::memcpy(place, &meant, sizeof meant);
    }
  });
  return hipSuccess;
}

/// Visits all buffers of which something survives, in parts of bounded size, until visit(part, &go_on) takes go_on back
/// or returns an error.
template <typename Visit>
hipError_t Shadows::for_each_part(Visit&& visit) const {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  for (std::size_t i = 0; i < shadows_.size(); ++i) {
    const std::size_t bytes = plan_->survives(i) ? plan_->bytes(i) : 0;
    for (std::size_t offset = 0; offset < bytes; offset += kMost) {
      bool go_on = true;
      const hipError_t result = visit(Part{i, offset, std::min(kMost, bytes - offset)}, &go_on);
      if (result != hipSuccess || !go_on) return result;
    }
  }
  return hipSuccess;
}

hipError_t Shadows::look_for_addresses(hipStream_t stream, bool* found) const {
  *found = false;
  std::vector<char> bytes;
  return for_each_part([&](const Part& part, bool* go_on) {
    const hipError_t result = fetch(shadows_[part.buffer] + part.offset, part.bytes, stream, &bytes);
    for_each_word(bytes, [&](const char*, std::uint64_t word) { *found = *found || may_be_address(word); });
    *go_on = !*found;
    return result;
  });
}

hipError_t Shadows::compare(const std::vector<char*>& bases, hipStream_t stream, Difference* difference) const {
  std::vector<char> program, shadow;
  const hipError_t result = for_each_part([&](const Part& part, bool* go_on) {
    const hipError_t fetched = fetch_both(part, bases, stream, &program, &shadow);
    if (fetched != hipSuccess) return fetched;
    const auto mismatch = std::mismatch(program.begin(), program.end(), shadow.begin());
    if (mismatch.first == program.end()) return hipSuccess;
    *difference = {true, part.buffer, part.offset + static_cast<std::size_t>(mismatch.first - program.begin())};
    *go_on = false;
    return hipSuccess;
  });
  return result != hipSuccess ? result : next().hipStreamSynchronize(stream);
}

hipError_t Shadows::restore(const std::vector<char*>& bases, hipStream_t stream) const {
  std::vector<char> program, shadow;
  return for_each_part([&](const Part& part, bool*) {
    hipError_t result = fetch_both(part, bases, stream, &program, &shadow);
    if (result != hipSuccess || program == shadow) return result;
    result = next().hipMemcpyAsync(bases[part.buffer] + part.offset, shadow.data(), part.bytes, hipMemcpyHostToDevice,
                                   stream);
    const hipError_t waited = next().hipStreamSynchronize(stream);
    return result != hipSuccess ? result : waited;
  });
}

}  // namespace graphpool
