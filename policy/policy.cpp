// policy.cpp: finds the rule that decides about an allocation; has the built-in rules.
#include "policy/policy.h"

#include <algorithm>
#include <array>

namespace graphpool {
namespace {

constexpr std::string_view kCommunicationLibraries[] = {
    "librccl",    "libnccl", "libmpi",     "libopen-pal", "libopen-rte", "libucp",   "libuct",
    "libucm",     "libucs",  "libfabric",  "libpsm2",     "libpmix",     "libshmem", "librocshmem",
    "libnvshmem", "libmori", "libibverbs", "librdmacm",   "libhcoll",    "libsharp", "libucc",
};

constexpr std::string_view kStreamOrdered[] = {"hipMallocAsync", "hipMallocFromPoolAsync"};

}  // namespace

bool CallSite::begins_with(const std::vector<Glob>& globs) noexcept {
  const std::size_t frames = depth();
  if (frames < globs.size()) return false;
  for (std::size_t left = globs.size(); left > 0; --left) {
    if (!globs[left - 1].matches(frame(frames - left))) return false;
  }
  return true;
}

bool CallSite::any_frame_matches(const Glob& glob) noexcept {
  const std::size_t frames = depth();
  for (std::size_t i = 0; i < frames; ++i) {
    if (glob.matches(frame(i))) return true;
  }
  return false;
}

bool is_communication_library(std::string_view module) noexcept {
  return std::any_of(std::begin(kCommunicationLibraries), std::end(kCommunicationLibraries),
                     [&](std::string_view prefix) { return module.starts_with(prefix); });
}

bool is_stream_ordered(std::string_view function) noexcept {
  // Also the forms with a suffix: hipMallocAsync_spt, hipMallocAsync_ptsz.
  return std::any_of(std::begin(kStreamOrdered), std::end(kStreamOrdered),
                     [&](std::string_view prefix) { return function.starts_with(prefix); });
}

bool BufferRule::matches(const AllocationQuery& query) const noexcept {
  if (!size.contains(query.size_bytes)) return false;
  if (!device.empty() && std::find(device.begin(), device.end(), query.device) == device.end()) return false;
  if (function.empty() ? is_stream_ordered(query.function) : !function.matches(query.function)) return false;
  if (module.empty() ? is_communication_library(query.module) : !module.matches(query.module)) return false;
  if (!needs_callsite()) return true;
  if (query.callsite == nullptr) return false;
  CallSite& site = *query.callsite;
  return (callsite_prefix.empty() || site.begins_with(callsite_prefix)) &&
         (callsite.empty() || site.any_frame_matches(callsite)) &&
         (order.is_everything() || order.contains(site.order()));
}

const BufferRule* Policy::match(const AllocationQuery& query) const noexcept {
  for (const BufferRule& rule : buffers) {
    if (rule.matches(query)) return &rule;
  }
  return nullptr;
}

bool Policy::needs_callsite() const noexcept {
  return std::any_of(buffers.begin(), buffers.end(), [](const BufferRule& rule) { return rule.needs_callsite(); });
}

void complete(Policy& policy) {
  using Key = BufferRule::Key;
  std::size_t number = 0;
  for (BufferRule& rule : policy.buffers) {
    ++number;
    if (rule.name.empty()) rule.name = "buffer " + std::to_string(number);
    if (!rule.says(Key::backing)) rule.backing = policy.pool.backing;
    if (!rule.says(Key::stage)) rule.stage = policy.graph.stage;
    if (!rule.says(Key::slots)) rule.slots = policy.graph.slots;
    if (!rule.says(Key::overlap)) rule.overlap = policy.graph.overlap;
    if (!policy.pool.enabled) rule.action = Action::kPass;
  }

  // Staging needs a rule that names the buffer, so neither built-in rule stages, whatever [graph] says.
  BufferRule ordinary;
  ordinary.name = "default";
  ordinary.action = policy.pool.enabled ? Action::kPool : Action::kPass;
  ordinary.backing = policy.pool.backing;
  ordinary.slots = policy.graph.slots;
  policy.buffers.push_back(ordinary);

  BufferRule others;
  others.name = "communication libraries and stream-ordered allocations";
  others.module = Glob("*");
  others.function = Glob("*");
  others.action = Action::kPass;
  policy.buffers.push_back(others);
}

}  // namespace graphpool
