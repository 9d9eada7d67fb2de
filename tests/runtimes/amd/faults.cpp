#include "faults.h"

#include <csignal>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "agents.h"
#include "checked.h"
#include "settings.h"

namespace hsa_cpu {

thread_local FaultPoint* t_fault_point = nullptr;

namespace {

struct sigaction before_watching[2]{};
constexpr int kSignals[] = {SIGSEGV, SIGBUS};

void on_fault(int signal, siginfo_t* info, void*) {
  if (FaultPoint* const point = t_fault_point) {
    point->address = reinterpret_cast<std::uint64_t>(info->si_addr);
    siglongjmp(point->go_on, 1);
  }
  // The handler that was there before gets the fault: the instruction runs again and faults again.
  for (int i = 0; i < 2; ++i)
    if (kSignals[i] == signal) sigaction(signal, &before_watching[i], nullptr);
}

struct Handlers {
  std::mutex mutex;
  std::vector<std::pair<hsa_amd_system_event_callback_t, void*>> all;
};
Handlers& handlers() {
  static auto* const made = new Handlers;
  return *made;
}

}  // namespace

void watch_devices() {
  if (checked()) return;
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction wanted {};
    wanted.sa_sigaction = on_fault;
    wanted.sa_flags = SA_SIGINFO | SA_NODEFER;  // it is left by a jump
    for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &wanted, &before_watching[i]);
  });
}

void tell_fault(const Agent& agent, std::uint64_t address, const char* what) {
  journal("fault device=%d address=%#lx by=%s", agent.index, address, what);
  std::vector<std::pair<hsa_amd_system_event_callback_t, void*>> asked;
  {
    const std::scoped_lock guard(handlers().mutex);
    asked = handlers().all;
  }
  hsa_amd_event_t event{};
  event.event_type = HSA_AMD_GPU_MEMORY_FAULT_EVENT;
  event.memory_fault = {handle_of(&agent), address, HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT};
  bool taken = false;
  for (const auto& [callback, data] : asked) taken = callback(&event, data) == HSA_STATUS_SUCCESS || taken;
  if (taken) return;
  complain("device %d touches %#lx, where nothing is: %s", agent.index, address, what);
  std::abort();
}

}  // namespace hsa_cpu

using namespace hsa_cpu;

HSA_CPU_API hsa_status_t hsa_amd_register_system_event_handler(hsa_amd_system_event_callback_t callback, void* data) {
  if (callback == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const std::scoped_lock guard(handlers().mutex);
  handlers().all.emplace_back(callback, data);
  return HSA_STATUS_SUCCESS;
}
