// faults.h: what happens when a device's code touches an address where no memory is mapped (a device fault).
//
// As in ROCR, the program is told of the fault if it has registered for events of the system
// (hsa_amd_register_system_event_handler); otherwise the process ends. Here a device's code runs on the processor, so
// the processor faults: a signal handler then jumps out of that code. Checked mode needs none of this, because it finds
// such an access before it is made.
#pragma once

#include <csetjmp>
#include <cstdint>

#include "abi.h"

namespace hsa_cpu {

struct Agent;

constexpr auto kMemoryFault = static_cast<hsa_status_t>(HSA_STATUS_ERROR_MEMORY_FAULT);

/// Where the thread goes on after a fault of the device's code that it runs.
struct FaultPoint {
  sigjmp_buf go_on;
  std::uint64_t address;
  FaultPoint* before;
};
extern thread_local FaultPoint* t_fault_point;

/// Runs a device's code. Returns false where it touched `address`, at which no memory is mapped; it was left there. The
/// destructors of the frames that were left have not run, so what they held is lost.
template <typename Body>
bool run_as_device(Body&& body, std::uint64_t& address) {
  FaultPoint point;
  point.before = t_fault_point;
  if (sigsetjmp(point.go_on, 0) != 0) {
    t_fault_point = point.before;
    address = point.address;
    return false;
  }
  t_fault_point = &point;
  body();
  t_fault_point = point.before;
  return true;
}

/// Installs the handlers of SIGSEGV and SIGBUS. A fault inside run_as_device() ends that call; the handlers that were
/// there before get every other fault.
void watch_devices();

/// Tells the program of a fault. Aborts the process where the program has not registered for such events, or where no
/// function that it registered answers success. `what`: what the device ran, for messages.
void tell_fault(const Agent& agent, std::uint64_t address, const char* what);

}  // namespace hsa_cpu
