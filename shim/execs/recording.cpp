#include "shim/execs/recording.h"

#include "shim/kernel/communication.h"
#include "shim/recording/operation_functions.h"

namespace graphpool {

std::string Recording::name() const {
  const auto named = [](const char* kernel) { return kernel != nullptr; };
  const auto first = std::find_if(kernels.begin(), kernels.end(), named);
  if (first == kernels.end()) return "no named kernel";
  const auto last = std::find_if(kernels.rbegin(), kernels.rend(), named);
  return *last == *first ? *first : std::string(*first) + " .. " + *last;
}

bool Recording::communicates() const {
  std::int8_t known = communicates_.load(std::memory_order_relaxed);
  if (known < 0) {
    const auto communicates = [](const Operation& operation) {
      const void* const kernel = kernel_of(operation.signature);
      return kernel != nullptr && is_communication_kernel(kernel);
    };
    const auto has_some = [&](const Operation& operation) { return holds(operation, communicates); };
    known = std::any_of(operations.begin(), operations.end(), has_some) ? 1 : 0;
    communicates_.store(known, std::memory_order_relaxed);
  }
  return known != 0;
}

void HeldRecording::let_go() noexcept {
  const LockGuard guard(g_recordings_lock);
  --recording_->users;
}

HeldRecording hold(Recording& recording) noexcept {
  const LockGuard guard(g_recordings_lock);
  ++recording.users;
  return HeldRecording(&recording);
}

}  // namespace graphpool
