// api.h: what every exported function of the CPU runtime goes through: the journal, injected failures, added cost,
// the thread's last error.
//
// Environment (read once, at the first call):
//   CPUHIP_DEVICES=n           number of devices (default 1)
//   CPUHIP_JOURNAL=file        one line a call: name, thread, device, stream, generation, result
//   CPUHIP_FAIL=name:n[:code]  the n-th call (from 1) of name returns code (default hipErrorOutOfMemory for allocations,
//                              else hipErrorUnknown); name * counts all calls; several are separated by commas
//   CPUHIP_COST=name:ns        busy time added to each call of name; * for every call; several are separated by commas
//   CPUHIP_VERSION=50221153    what hipRuntimeGetVersion answers; layouts and enumerators follow it (default: by SONAME)
//   CPUHIP_MEMORY=bytes        memory of each device (default 1 GiB)
#pragma once

#include <hip/hip_runtime_api.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#define CPUHIP_EXPORT extern "C" __attribute__((visibility("default")))

namespace cpuhip {

struct Config {
  int devices = 1;
  int version = 50221153;
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;
};
const Config& config();

/// One call of an exported function, from entry to return. Nested calls (an exported function calling another one's
/// implementation) do not journal: bodies call each other's implementation, never an exported name.
class Call {
 public:
  explicit Call(const char* name);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// The code to return at once when this call is to fail (CPUHIP_FAIL, or the device's sticky error); else hipSuccess.
  hipError_t injected() const { return injected_; }
  /// Notes the stream for the journal.
  void on_stream(hipStream_t stream) { stream_ = stream; }
  /// Records the result for the journal and the thread's last error; returns it.
  hipError_t leave(hipError_t result);

 private:
  const char* name_;
  hipStream_t stream_ = nullptr;
  hipError_t injected_ = hipSuccess;
  hipError_t result_ = hipSuccess;
};

/// Runs the body of an exported function that returns hipError_t:
///   CPUHIP_EXPORT hipError_t hipFoo(int x) { return cpuhip::api("hipFoo", [&](cpuhip::Call& call) { ... }); }
template <typename Body>
hipError_t api(const char* name, Body&& body) {
  Call call(name);
  if (call.injected() != hipSuccess) return call.leave(call.injected());
  return call.leave(body(call));
}

/// The generated stand-in of every function nobody implements: journals and returns hipErrorNotSupported.
hipError_t not_supported(const char* name);

/// Ends the process with a message: misuse of a destroyed object, a broken invariant of a test.
[[noreturn]] void fatal(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace cpuhip
