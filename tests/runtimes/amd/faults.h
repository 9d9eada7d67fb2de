// faults.h: a device touches an address where nothing is.
//
// A device's fault is told to the program, if it has asked to be told (hsa_amd_register_system_event_handler), and ends
// the process otherwise, as ROCR does it. Here the processor faults in its place: what runs as a device's code is left
// at once. Not in checked mode, where such an access is found before it is made.
#pragma once

#include <csetjmp>
#include <cstdint>

#include "abi.h"

namespace hsa_cpu {

struct Agent;

constexpr auto kMemoryFault = static_cast<hsa_status_t>(HSA_STATUS_ERROR_MEMORY_FAULT);

/// Where a thread goes on whose device's code has touched nothing.
struct FaultPoint {
  sigjmp_buf go_on;
  std::uint64_t address;
  FaultPoint* before;
};
extern thread_local FaultPoint* t_fault_point;

/// Runs a device's code. False: it touched nothing at `address`, and was left there; no destructor of its frames
/// has run: what they held is lost.
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

/// From now on such faults of the processor lead there; all others to where they led before.
void watch_devices();

/// Tells the program of a fault. Does not return where it has not asked to be told, or does not take it.
void tell_fault(const Agent& agent, std::uint64_t address, const char* what);

}  // namespace hsa_cpu
