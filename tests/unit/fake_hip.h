// fake_hip.h: just enough HIP to test shim/memory without a runtime: devices with a byte budget, page-granular
// addresses that are not handed out again, streams whose work completes when the test says so, events, VMM, last
// errors, and any call made to fail.
//
// A wait for work that the test has not allowed to finish by itself (`finish_when_waited`) is noted in `stuck`: there a
// real program would hang. Threads: one lock, held for each call. Units: bytes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "shim/base/units.h"
#include "shim/hip/next.h"
#include "shim/hip/quirks.h"
#include "shim/memory/never_address.h"
#include "shim/streams/open_captures.h"

namespace graphpool::fake {

constexpr int kDevices = 2;

struct Operation {
  bool done = false;
  std::vector<std::pair<std::uintptr_t, std::size_t>> after;  // (stream, position): all before it must be done
};

struct Stream {
  int device = 0;
  bool blocking = true;
  std::vector<Operation> operations;
};

struct Event {
  int device = 0;
  std::uintptr_t stream = 0;
  std::size_t position = 0;
  bool recorded = false;
};

struct Allocation {
  std::size_t bytes;
  int device;
};

struct Hip {
  std::mutex lock;
  int version = 71500000;
  std::size_t total_bytes = 256 * kMiB;
  std::size_t used_bytes[kDevices] = {};
  std::map<std::uintptr_t, Allocation> allocations;
  std::uintptr_t next_address = 0x7000'0000'0000;
  bool reuse_addresses = false;
  void* last_freed = nullptr;  ///< what a free was told
  bool frees_inside = true;    ///< any address of an allocation frees it, as with AMD's runtimes
  std::map<std::size_t, std::vector<std::uintptr_t>> freed;
  std::map<std::uintptr_t, Stream> streams;  // null streams: 0x10 + device; per-thread ones are the caller's
  std::map<std::uintptr_t, Event> events;
  std::uintptr_t next_handle = 0x1000;
  bool finish_when_waited = true;
  int waits = 0;  // waits for something that was not complete
  bool stuck = false;
  int captures = 0;
  std::set<std::uintptr_t> capturing_streams;
  bool capture_invalidated = false;

  struct Physical {
    std::size_t bytes;
    int device;
  };
  struct Mapped {
    std::size_t bytes;
    std::uintptr_t physical;
    bool access = false;
  };
  std::map<std::uintptr_t, std::size_t> reservations;
  std::map<std::uintptr_t, Physical> physicals;
  std::map<std::uintptr_t, Mapped> mappings;
  bool vmm = true;
  bool misalign_reservations = false;
  bool hide_map_errors = false;

  int calls = 0;
  int fail_at = 0;  // this call (from 1) fails
  std::string failed;
  hipError_t fail_code = hipErrorUnknown;
  std::map<std::string, int> count;
  std::map<std::string, hipError_t> fail;  // every call of the name

  bool leaks() const {
    return !reservations.empty() || !physicals.empty() || !mappings.empty() || !allocations.empty();
  }
};

inline Hip* g_hip = nullptr;
inline thread_local int t_device = 0;
inline thread_local hipError_t t_last_error = hipSuccess;
inline thread_local hipStreamCaptureMode t_mode = hipStreamCaptureModeGlobal;

inline hipError_t result(hipError_t error) {
  if (g_hip->version < 70000000 || (error != hipSuccess && error != hipErrorNotReady)) t_last_error = error;
  return error;
}

/// What every fake goes through; the body runs under the lock.
template <typename Body>
hipError_t call(const char* name, Body&& body) {
  Hip& hip = *g_hip;
  std::lock_guard guard(hip.lock);
  ++hip.count[name];
  if (++hip.calls == hip.fail_at) {
    hip.failed = name;
    return result(hip.fail_code);
  }
  if (const auto found = hip.fail.find(name); found != hip.fail.end()) return result(found->second);
  return result(body(hip));
}

inline std::uintptr_t key_of(hipStream_t stream) {
  const auto value = reinterpret_cast<std::uintptr_t>(stream);
  if (stream == hipStreamPerThread) return reinterpret_cast<std::uintptr_t>(&t_device);  // one a thread
  return value <= 1 ? 0x10u + static_cast<unsigned>(t_device) : value;
}

inline Stream& stream_at(Hip& hip, std::uintptr_t key) {
  const auto [place, made] = hip.streams.try_emplace(key);
  if (made) place->second.device = key < 0x12 ? static_cast<int>(key - 0x10) : t_device;
  return place->second;
}

inline bool is_null(std::uintptr_t key) { return key < 0x12; }

/// Whether everything before the position is done; `finish` makes it so.
inline bool reach(Hip& hip, std::uintptr_t key, std::size_t position, bool finish) {
  for (std::size_t i = 0; i < position; ++i) {
    Operation& operation = stream_at(hip, key).operations[i];
    if (operation.done) continue;
    for (const auto& [stream, before] : operation.after)
      if (!reach(hip, stream, before, finish)) return false;
    if (operation.after.empty() && !finish) return false;
    operation.done = true;
  }
  return true;
}

/// Null streams and blocking streams wait for each other.
inline void order_with_null(Hip& hip, std::uintptr_t key, Operation& operation) {
  Stream& self = stream_at(hip, key);
  for (auto& [other, stream] : hip.streams) {
    if (other == key || stream.device != self.device || !stream.blocking) continue;
    if (is_null(key) || (self.blocking && is_null(other)))
      if (!reach(hip, other, stream.operations.size(), false))
        operation.after.emplace_back(other, stream.operations.size());
  }
}

inline hipError_t wait_for(Hip& hip, std::uintptr_t key, std::size_t position) {
  if (reach(hip, key, position, false)) return hipSuccess;
  ++hip.waits;
  if (!hip.finish_when_waited) {
    hip.stuck = true;
    return hipErrorUnknown;
  }
  reach(hip, key, position, true);
  return hipSuccess;
}

/// The program enqueues work on a stream: not done until waited for, or finish().
inline void work(hipStream_t stream) {
  std::lock_guard guard(g_hip->lock);
  const std::uintptr_t key = key_of(stream);
  stream_at(*g_hip, key).operations.emplace_back();
}
inline void finish(hipStream_t stream) {
  std::lock_guard guard(g_hip->lock);
  const std::uintptr_t key = key_of(stream);
  reach(*g_hip, key, stream_at(*g_hip, key).operations.size(), true);
}
inline bool idle(hipStream_t stream) {
  std::lock_guard guard(g_hip->lock);
  const std::uintptr_t key = key_of(stream);
  return reach(*g_hip, key, stream_at(*g_hip, key).operations.size(), false);
}

/// What HIP does in calls that a capture forbids.
inline hipError_t check_capture(Hip& hip) {
  if (hip.captures == 0 || t_mode == hipStreamCaptureModeRelaxed) return hipSuccess;
  hip.capture_invalidated = true;
  return hipErrorStreamCaptureUnsupported;
}

inline hipError_t allocate(Hip& hip, void** ptr, std::size_t bytes) {
  if (ptr == nullptr) return hipErrorInvalidValue;
  *ptr = nullptr;
  if (bytes == 0) return hipSuccess;
  const std::size_t whole = round_up(bytes, kPageBytes);
  if (hip.used_bytes[t_device] + whole > hip.total_bytes) return hipErrorOutOfMemory;
  hip.used_bytes[t_device] += whole;
  std::uintptr_t address = 0;
  if (auto& old = hip.freed[whole]; hip.reuse_addresses && !old.empty()) {
    address = old.back();
    old.pop_back();
  } else {
    address = hip.next_address;
    hip.next_address += whole + kPageBytes;
  }
  hip.allocations[address] = {bytes, t_device};
  *ptr = reinterpret_cast<void*>(address);
  return hipSuccess;
}

/// The allocation that freeing the address frees.
inline std::map<std::uintptr_t, Allocation>::iterator freed_by(Hip& hip, void* ptr) {
  hip.last_freed = ptr;
  const auto address = reinterpret_cast<std::uintptr_t>(ptr);
  auto found = hip.allocations.upper_bound(address);
  if (found == hip.allocations.begin()) return hip.allocations.end();
  --found;
  const bool its = address == found->first || (hip.frees_inside && address - found->first < found->second.bytes);
  return its ? found : hip.allocations.end();
}

inline hipError_t release(Hip& hip, void* ptr) {
  if (const hipError_t error = check_capture(hip); error != hipSuccess) return error;
  if (ptr == nullptr) return hipSuccess;
  const auto found = freed_by(hip, ptr);
  if (found == hip.allocations.end()) return hipErrorInvalidValue;
  const Allocation allocation = found->second;
  for (auto& [key, stream] : hip.streams) {
    if (stream.device != allocation.device) continue;
    const hipError_t error = wait_for(hip, key, stream.operations.size());
    if (error != hipSuccess) return error;
  }
  const std::size_t whole = round_up(allocation.bytes, kPageBytes);
  hip.used_bytes[allocation.device] -= whole;
  hip.freed[whole].push_back(found->first);
  hip.allocations.erase(found);
  return hipSuccess;
}

inline hipError_t create(Hip& hip, hipStream_t* stream, unsigned flags) {
  const std::uintptr_t handle = hip.next_handle += 0x100;
  hip.streams[handle] = {t_device, (flags & hipStreamNonBlocking) == 0, {}};
  *stream = reinterpret_cast<hipStream_t>(handle);
  return hipSuccess;
}

inline hipError_t record(Hip& hip, hipEvent_t event, hipStream_t stream) {
  const auto found = hip.events.find(reinterpret_cast<std::uintptr_t>(event));
  if (found == hip.events.end()) return hipErrorInvalidHandle;
  const std::uintptr_t key = key_of(stream);
  Stream& on = stream_at(hip, key);
  if (on.device != found->second.device) return hipErrorInvalidHandle;
  if (hip.capturing_streams.count(key) != 0) ADD_FAILURE() << "an event of ours got into a capture";
  Operation operation;
  order_with_null(hip, key, operation);
  operation.done = operation.after.empty();
  on.operations.push_back(operation);
  found->second = {on.device, key, on.operations.size(), true};
  return hipSuccess;
}

/// HIP 6.3: an event whose stream has begun a capture may be neither waited for nor queried.
inline hipError_t check_event(Hip& hip, const Event& event) {
  if (hip.capturing_streams.count(event.stream) == 0) return hipSuccess;
  hip.capture_invalidated = true;
  return hipErrorCapturedEvent;
}

inline hipError_t destroy_stream(Hip& hip, hipStream_t stream) {
  return hip.streams.erase(reinterpret_cast<std::uintptr_t>(stream)) == 1 ? hipSuccess : hipErrorInvalidHandle;
}

/// Fills the next table. One at a time; everything of the test before is forgotten.
class Install {
 public:
  Install() {
    (void)never_mapped_address();  // once for the process, and no leak of this test's
    hip = std::make_unique<Hip>();
    g_hip = hip.get();
    t_device = 0;
    t_last_error = hipSuccess;
    t_mode = hipStreamCaptureModeGlobal;
    test_set_runtime_version(-1);
    saved_ = test_next();
    Next& next = test_next();
    next.hipRuntimeGetVersion = [](int* out) {
      *out = g_hip->version;
      return hipSuccess;
    };
    next.hipGetLastError = [] { return std::exchange(t_last_error, hipSuccess); };
    next.hipPeekAtLastError = [] { return t_last_error; };
    next.hipGetDeviceCount = [](int* out) {
      *out = kDevices;
      return result(hipSuccess);
    };
    next.hipGetDevice = [](int* out) {
      *out = t_device;
      return result(hipSuccess);
    };
    next.hipSetDevice = [](int device) {
      return call("hipSetDevice", [&](Hip&) {
        if (device < 0 || device >= kDevices) return hipErrorInvalidDevice;
        t_device = device;
        return hipSuccess;
      });
    };
    next.hipDeviceCanAccessPeer = [](int* can, int, int) {
      *can = 1;
      return result(hipSuccess);
    };
    next.hipDeviceTotalMem = [](std::size_t* bytes, hipDevice_t) {
      return call("hipDeviceTotalMem", [&](Hip& hip) {
        *bytes = hip.total_bytes;
        return hipSuccess;
      });
    };
    next.hipMemGetInfo = [](std::size_t* free_bytes, std::size_t* bytes) {
      return call("hipMemGetInfo", [&](Hip& hip) {
        *free_bytes = hip.total_bytes - hip.used_bytes[t_device];
        *bytes = hip.total_bytes;
        return hipSuccess;
      });
    };
    next.hipThreadExchangeStreamCaptureMode = [](hipStreamCaptureMode* mode) {
      return call("hipThreadExchangeStreamCaptureMode", [&](Hip&) {
        std::swap(*mode, t_mode);
        return hipSuccess;
      });
    };
    next.hipMalloc = [](void** ptr, std::size_t bytes) {
      return call("hipMalloc", [&](Hip& hip) {
        const hipError_t error = check_capture(hip);
        return error != hipSuccess ? error : allocate(hip, ptr, bytes);
      });
    };
    next.hipExtMallocWithFlags = [](void** ptr, std::size_t bytes, unsigned) {
      return call("hipExtMallocWithFlags", [&](Hip& hip) { return allocate(hip, ptr, bytes); });
    };
    next.hipMallocAsync = [](void** ptr, std::size_t bytes, hipStream_t) {
      return call("hipMallocAsync", [&](Hip& hip) { return allocate(hip, ptr, bytes); });
    };
    next.hipFree = [](void* ptr) { return call("hipFree", [&](Hip& hip) { return release(hip, ptr); }); };
    next.hipHostFree = [](void* ptr) { return call("hipHostFree", [&](Hip& hip) { return release(hip, ptr); }); };
    next.hipFreeAsync = [](void* ptr, hipStream_t) {
      return call("hipFreeAsync", [&](Hip& hip) {
        const auto found = freed_by(hip, ptr);
        if (found == hip.allocations.end()) return hipErrorInvalidValue;
        hip.used_bytes[found->second.device] -= round_up(found->second.bytes, kPageBytes);
        hip.allocations.erase(found);
        return hipSuccess;
      });
    };
    next.hipStreamCreateWithFlags = [](hipStream_t* stream, unsigned flags) {
      return call("hipStreamCreateWithFlags", [&](Hip& hip) { return create(hip, stream, flags); });
    };
    next.hipStreamCreateWithPriority = [](hipStream_t* stream, unsigned flags, int) {
      return call("hipStreamCreateWithPriority", [&](Hip& hip) { return create(hip, stream, flags); });
    };
    next.hipEventCreateWithFlags = [](hipEvent_t* event, unsigned) {
      return call("hipEventCreateWithFlags", [&](Hip& hip) {
        const std::uintptr_t handle = hip.next_handle += 0x100;
        hip.events[handle] = {t_device, 0, 0, false};
        *event = reinterpret_cast<hipEvent_t>(handle);
        return hipSuccess;
      });
    };
    next.hipEventRecord = [](hipEvent_t event, hipStream_t stream) {
      return call("hipEventRecord", [&](Hip& hip) { return record(hip, event, stream); });
    };
    next.hipStreamWaitEvent = [](hipStream_t stream, hipEvent_t event, unsigned) {
      return call("hipStreamWaitEvent", [&](Hip& hip) {
        const Event& from = hip.events.at(reinterpret_cast<std::uintptr_t>(event));
        Operation operation;
        operation.after.emplace_back(from.stream, from.position);
        stream_at(hip, key_of(stream)).operations.push_back(operation);
        return hipSuccess;
      });
    };
    next.hipEventSynchronize = [](hipEvent_t event) {
      return call("hipEventSynchronize", [&](Hip& hip) {
        const Event& from = hip.events.at(reinterpret_cast<std::uintptr_t>(event));
        const hipError_t error = check_event(hip, from);
        return error != hipSuccess ? error : wait_for(hip, from.stream, from.position);
      });
    };
    next.hipEventQuery = [](hipEvent_t event) {
      return call("hipEventQuery", [&](Hip& hip) {
        const Event& from = hip.events.at(reinterpret_cast<std::uintptr_t>(event));
        const hipError_t error = check_event(hip, from);
        if (error != hipSuccess) return error;
        return reach(hip, from.stream, from.position, false) ? hipSuccess : hipErrorNotReady;
      });
    };
    next.hipStreamIsCapturing = [](hipStream_t stream, hipStreamCaptureStatus* status) {
      return call("hipStreamIsCapturing", [&](Hip& hip) {
        const bool captures = hip.capturing_streams.count(key_of(stream)) != 0;
        *status = captures ? hipStreamCaptureStatusActive : hipStreamCaptureStatusNone;
        return hipSuccess;
      });
    };
    install_vmm(next);
  }

  ~Install() {
    test_next() = saved_;
    test_set_runtime_version(-1);
    while (captures_open()) capture_closed();
    g_hip = nullptr;
  }

  std::unique_ptr<Hip> hip;

 private:
  static void install_vmm(Next& next) {
    next.hipMemGetAllocationGranularity = [](std::size_t* bytes, const hipMemAllocationProp*,
                                             hipMemAllocationGranularity_flags) {
      return call("hipMemGetAllocationGranularity", [&](Hip& hip) {
        *bytes = kPageBytes;
        return hip.vmm ? hipSuccess : hipErrorNotSupported;
      });
    };
    next.hipMemAddressReserve = [](void** ptr, std::size_t bytes, std::size_t, void*, unsigned long long) {
      return call("hipMemAddressReserve", [&](Hip& hip) {
        if (!hip.vmm) return hipErrorNotSupported;
        std::uintptr_t address = round_up(hip.next_address, 2 * kMiB);
        if (hip.misalign_reservations) address += 3 * kPageBytes;
        hip.next_address = address + bytes + kPageBytes;
        hip.reservations[address] = bytes;
        *ptr = reinterpret_cast<void*>(address);
        return hipSuccess;
      });
    };
    next.hipMemAddressFree = [](void* ptr, std::size_t bytes) {
      return call("hipMemAddressFree", [&](Hip& hip) {
        const auto found = hip.reservations.find(reinterpret_cast<std::uintptr_t>(ptr));
        if (found == hip.reservations.end() || found->second != bytes) {
          ADD_FAILURE() << "freeing an unknown reservation crashes HIP 6.3";
          return hipErrorInvalidValue;
        }
        hip.reservations.erase(found);
        return hipSuccess;
      });
    };
    next.hipMemCreate = [](hipMemGenericAllocationHandle_t* handle, std::size_t bytes, const hipMemAllocationProp*,
                           unsigned long long) {
      return call("hipMemCreate", [&](Hip& hip) {
        if (hip.used_bytes[t_device] + bytes > hip.total_bytes) return hipErrorOutOfMemory;
        hip.used_bytes[t_device] += bytes;
        const std::uintptr_t name = hip.next_handle += 0x100;
        hip.physicals[name] = {bytes, t_device};
        *handle = reinterpret_cast<hipMemGenericAllocationHandle_t>(name);
        return hipSuccess;
      });
    };
    next.hipMemRelease = [](hipMemGenericAllocationHandle_t handle) {
      return call("hipMemRelease", [&](Hip& hip) {
        const auto found = hip.physicals.find(reinterpret_cast<std::uintptr_t>(handle));
        if (found == hip.physicals.end()) return hipErrorInvalidValue;
        hip.used_bytes[found->second.device] -= found->second.bytes;
        hip.physicals.erase(found);
        return hipSuccess;
      });
    };
    next.hipMemMap = [](void* ptr, std::size_t bytes, std::size_t, hipMemGenericAllocationHandle_t handle,
                        unsigned long long) {
      return call("hipMemMap", [&](Hip& hip) {
        if (hip.hide_map_errors) return hipSuccess;
        const auto physical = reinterpret_cast<std::uintptr_t>(handle);
        hip.mappings[reinterpret_cast<std::uintptr_t>(ptr)] = {bytes, physical, false};
        return hipSuccess;
      });
    };
    next.hipMemUnmap = [](void* ptr, std::size_t bytes) {
      return call("hipMemUnmap", [&](Hip& hip) {
        const auto found = hip.mappings.find(reinterpret_cast<std::uintptr_t>(ptr));
        if (found == hip.mappings.end()) return hipErrorInvalidValue;
        EXPECT_EQ(found->second.bytes, bytes);
        hip.mappings.erase(found);
        return hipSuccess;
      });
    };
    next.hipMemSetAccess = [](void* ptr, std::size_t, const hipMemAccessDesc*, std::size_t count) {
      return call("hipMemSetAccess", [&](Hip& hip) {
        EXPECT_EQ(count, std::size_t{kDevices}) << "access for every device that can reach it";
        const auto found = hip.mappings.find(reinterpret_cast<std::uintptr_t>(ptr));
        if (found == hip.mappings.end()) return hipErrorInvalidValue;
        found->second.access = true;
        return hipSuccess;
      });
    };
    next.hipMemGetAccess = [](unsigned long long* flags, const hipMemLocation*, void* ptr) {
      return call("hipMemGetAccess", [&](Hip& hip) {
        const auto found = hip.mappings.find(reinterpret_cast<std::uintptr_t>(ptr));
        if (found == hip.mappings.end()) return hipErrorInvalidValue;
        *flags = found->second.access ? hipMemAccessFlagsProtReadWrite : hipMemAccessFlagsProtNone;
        return hipSuccess;
      });
    };
  }

  Next saved_;
};

}  // namespace graphpool::fake
