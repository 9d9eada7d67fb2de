// settings.h: what the environment says of the devices. Read once, at the first call.
//
// HSACPU_DEVICES    number of GPUs (1)
// HSACPU_MEMORY     bytes of memory of each (8 GiB)
// HSACPU_ISA        what each is, as its code objects name it (gfx906:sramecc-:xnack-)
// HSACPU_LARGE_BAR  1: the host sees the memory of the devices (0)
// HSACPU_DELAY      each packet and copy takes up to so many microseconds longer, at random (0)
// HSACPU_FAIL_AT    so many allocations succeed, none after that; 0: all (0)
// HSACPU_KERNELS   0: dispatches complete and their kernels do nothing: what is left is what the host costs (1)
// HSACPU_CHECKED    1: each access of kernels and copies is compared with the live allocations; one that is not allowed
//                   is reported on stderr, and the process ends with exit code 86; 2: the process aborts at the first
//                   such access; 0: nothing is compared (0)
// HSACPU_JOURNAL    a file, to which a line is appended for everything that reached a device
#pragma once

#include <cstddef>
#include <string>

namespace hsa_cpu {

struct Settings {
  int devices;
  std::size_t memory_bytes;
  std::string isa;
  bool large_bar;
  unsigned delay_us;
  long fail_at;
  bool run_kernels;
  std::string journal;
  int checked;
};
const Settings& settings();

/// A device's address on the bus, in domain 0: bus, device and function as HSA and rocm_smi put them together.
constexpr unsigned pci_address(int device) { return static_cast<unsigned>(0x10 + device) << 8; }

/// A line on stderr about something the devices cannot do.
void complain(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// A line of the journal; nothing without one. Any thread.
void journal(const char* format, ...) __attribute__((format(printf, 1, 2)));
bool journal_kept();

/// Waits as long as HSACPU_DELAY says.
void delay();

}  // namespace hsa_cpu
