// device.cpp: devices, their properties, contexts and peer access.
// Contexts are what HIP makes of them: one a device, whatever is created; a context's handle is its device.
#include "device.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "api.h"
#include "capture.h"
#include "common/properties_r0600.h"
#include "graph.h"
#include "memory.h"
#include "memory_table.h"
#include "stream.h"

namespace cpuhip {
namespace {

thread_local int t_device = 0;
thread_local std::vector<int> t_contexts;  // devices under the current one

std::atomic<bool> g_forked{false};

std::vector<Device*>& devices() {
  static auto& instance = *[] {
    auto* made = new std::vector<Device*>;
    for (int ordinal = 0; ordinal < config().devices; ++ordinal) made->push_back(new Device(ordinal));
    pthread_atfork(nullptr, nullptr, [] {
      for (Device* device : devices()) device->sticky.store(hipErrorNotInitialized);
      g_forked = true;
    });
    return made;
  }();
  return instance;
}

bool is_sticky(hipError_t error) {
  return error == hipErrorIllegalAddress || error == hipErrorLaunchFailure || error == hipErrorAssert ||
         error == hipErrorUnknown;
}

}  // namespace

bool forked() { return g_forked.load(std::memory_order_relaxed); }

Device& device(int ordinal) { return *devices()[static_cast<std::size_t>(ordinal)]; }
Device& current_device() { return device(t_device); }
int device_count() { return config().devices; }

bool set_device(int ordinal) {
  if (ordinal < 0 || ordinal >= device_count()) return false;
  t_device = ordinal;
  return true;
}

void Device::note(hipError_t result) {
  hipError_t none = hipSuccess;
  if (is_sticky(result)) sticky.compare_exchange_strong(none, result);
}

namespace {

/// What all processes have of each device's memory: in the file of CPUHIP_SHARED, else in memory of this process.
class AllUsed {
 public:
  static AllUsed& instance() {
    static auto& made = *new AllUsed;
    return made;
  }
  std::atomic<std::size_t>& of(int ordinal) { return used_[ordinal]; }

 private:
  AllUsed() {
    constexpr std::size_t kBytes = sizeof(std::atomic<std::size_t>) * kMaxDevices;
    const char* const name = config().shared;
    const int file = name == nullptr ? -1 : open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (name != nullptr && (file < 0 || ftruncate(file, kBytes) != 0)) fatal("CPUHIP_SHARED: cannot open '%s'", name);
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              name == nullptr ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) fatal("cannot map what the devices' memory is counted in");
    if (file >= 0) close(file);
    used_ = static_cast<std::atomic<std::size_t>*>(memory);
    if (name != nullptr) std::atexit([] { instance().process_ends(); });
  }
  void process_ends() {
    if (forked()) return;  // what a child has is its parent's
    for (int ordinal = 0; ordinal < device_count(); ++ordinal)
      of(ordinal).fetch_sub(device(ordinal).held_bytes(), std::memory_order_relaxed);
  }

  std::atomic<std::size_t>* used_ = nullptr;
};

}  // namespace

bool Device::take_memory(std::size_t bytes) {
  std::atomic<std::size_t>& all = AllUsed::instance().of(ordinal_);
  std::size_t used = all.load(std::memory_order_relaxed);
  do {
    if (bytes > config().memory_bytes - used) return false;
  } while (!all.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  used_.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

void Device::give_memory(std::size_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  AllUsed::instance().of(ordinal_).fetch_sub(bytes, std::memory_order_relaxed);
}

std::size_t Device::free_bytes() const {
  return config().memory_bytes - AllUsed::instance().of(ordinal_).load(std::memory_order_relaxed) +
         untold_.load(std::memory_order_relaxed);
}

namespace {

bool valid(int ordinal) { return ordinal >= 0 && ordinal < device_count(); }

constexpr int kWarp = 64, kMaxThreads = 1024, kProcessors = 104;
constexpr std::size_t kSharedBytes = 64 * 1024;
constexpr char kArch[] = "gfx90a:sramecc+:xnack-";

hipDeviceArch_t arch_features() {
  hipDeviceArch_t arch{};
  arch.hasGlobalInt32Atomics = arch.hasGlobalFloatAtomicExch = arch.hasSharedInt32Atomics = 1;
  arch.hasGlobalInt64Atomics = arch.hasDoubles = arch.hasWarpVote = arch.hasWarpBallot = arch.hasWarpShuffle = 1;
  arch.has3dGrid = 1;
  return arch;
}

/// The members whose names both layouts' fillers share.
void name_device(char (&name)[256], int ordinal) { std::snprintf(name, sizeof name, "CPU device %d", ordinal); }

hipError_t properties(hipDeviceProp_t* place, int ordinal) {
  if (place == nullptr) return hipErrorInvalidValue;
  if (!valid(ordinal)) return hipErrorInvalidDevice;
  hipDeviceProp_t p{};
  name_device(p.name, ordinal);
  p.totalGlobalMem = config().memory_bytes;
  p.sharedMemPerBlock = p.maxSharedMemoryPerMultiProcessor = kSharedBytes;
  p.regsPerBlock = 65536;
  p.warpSize = kWarp;
  p.maxThreadsPerBlock = kMaxThreads;
  std::fill_n(p.maxThreadsDim, 3, kMaxThreads);
  std::fill_n(p.maxGridSize, 3, 0x7fffffff);
  p.clockRate = 1'700'000;
  p.memoryClockRate = 1'600'000;
  p.memoryBusWidth = 4096;
  p.totalConstMem = 0x7fffffff;
  p.major = 9;
  p.multiProcessorCount = kProcessors;
  p.l2CacheSize = 8 << 20;
  p.maxThreadsPerMultiProcessor = 2048;
  p.clockInstructionRate = 100'000;
  p.arch = arch_features();
  p.concurrentKernels = p.canMapHostMemory = p.cooperativeLaunch = p.managedMemory = 1;
  p.pciBusID = ordinal + 1;
  p.gcnArch = 910;
  std::memcpy(p.gcnArchName, kArch, sizeof kArch);
  p.memPitch = 0x7fffffff;
  p.textureAlignment = p.texturePitchAlignment = 256;
  p.isLargeBar = 1;
  *place = p;
  return hipSuccess;
}

hipError_t properties_r0600(void* place, int ordinal) {
  hipDeviceProp_t old;
  if (place == nullptr) return hipErrorInvalidValue;
  if (const hipError_t result = properties(&old, ordinal); result != hipSuccess) return result;
  hipfront::PropertiesR0600 p{};
  name_device(p.name, ordinal);
  p.uuid[0] = static_cast<char>(ordinal + 1);
  p.total_bytes = old.totalGlobalMem;
  p.shared_bytes_per_block = p.shared_bytes_per_processor = p.max_shared_bytes_per_processor = kSharedBytes;
  p.registers_per_block = p.registers_per_processor = old.regsPerBlock;
  p.warp_size = kWarp;
  p.max_pitch = old.memPitch;
  p.max_threads_per_block = kMaxThreads;
  std::copy_n(old.maxThreadsDim, 3, p.max_threads_dim);
  std::copy_n(old.maxGridSize, 3, p.max_grid);
  p.clock_khz = old.clockRate;
  p.constant_bytes = old.totalConstMem;
  p.major = old.major;
  p.texture_alignment = p.texture_pitch_alignment = 256;
  p.processors = kProcessors;
  p.concurrent_kernels = p.can_map_host = p.cooperative_launch = p.managed_memory = p.unified_addressing = 1;
  p.pci_bus = old.pciBusID;
  p.async_engines = 2;
  p.memory_clock_khz = old.memoryClockRate;
  p.memory_bus_bits = old.memoryBusWidth;
  p.l2_bytes = old.l2CacheSize;
  p.max_threads_per_processor = old.maxThreadsPerMultiProcessor;
  p.stream_priorities = p.host_register = p.memory_pools = p.large_bar = 1;
  std::memcpy(p.arch_name, kArch, sizeof kArch);
  p.clock_instruction_rate = old.clockInstructionRate;
  p.arch = old.arch;
  std::memcpy(place, &p, sizeof p);
  return hipSuccess;
}

/// hipDeviceAttribute_t got this one after 5.2; there it has to be found out by trying.
constexpr int kAttributeVirtualMemory = hipDeviceAttributeMemoryPoolsSupported + 1;
constexpr int kVirtualMemoryAttributeSince = 50300000;

hipError_t attribute(int* value, int wanted, int ordinal) {
  hipDeviceProp_t p;
  if (value == nullptr) return hipErrorInvalidValue;
  if (const hipError_t result = properties(&p, ordinal); result != hipSuccess) return result;
  if (wanted == kAttributeVirtualMemory && config().version >= kVirtualMemoryAttributeSince) {
    *value = config().vmm;
    return hipSuccess;
  }
  switch (wanted) {
    case hipDeviceAttributeMaxThreadsPerBlock:
    case hipDeviceAttributeMaxBlockDimX:
    case hipDeviceAttributeMaxBlockDimY:
    case hipDeviceAttributeMaxBlockDimZ:
      *value = kMaxThreads;
      break;
    case hipDeviceAttributeMaxGridDimX:
    case hipDeviceAttributeMaxGridDimY:
    case hipDeviceAttributeMaxGridDimZ:
      *value = p.maxGridSize[0];
      break;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
    case hipDeviceAttributeSharedMemPerBlockOptin:
    case hipDeviceAttributeSharedMemPerMultiprocessor:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(kSharedBytes);
      break;
    case hipDeviceAttributeWarpSize:
      *value = kWarp;
      break;
    case hipDeviceAttributeMaxRegistersPerBlock:
    case hipDeviceAttributeMaxRegistersPerMultiprocessor:
      *value = p.regsPerBlock;
      break;
    case hipDeviceAttributeClockRate:
      *value = p.clockRate;
      break;
    case hipDeviceAttributeMemoryClockRate:
      *value = p.memoryClockRate;
      break;
    case hipDeviceAttributeMemoryBusWidth:
      *value = p.memoryBusWidth;
      break;
    case hipDeviceAttributeMultiprocessorCount:
    case hipDeviceAttributePhysicalMultiProcessorCount:
      *value = kProcessors;
      break;
    case hipDeviceAttributeL2CacheSize:
      *value = p.l2CacheSize;
      break;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor:
      *value = p.maxThreadsPerMultiProcessor;
      break;
    case hipDeviceAttributeComputeCapabilityMajor:
      *value = p.major;
      break;
    case hipDeviceAttributePciBusId:
      *value = p.pciBusID;
      break;
    case hipDeviceAttributeTotalConstantMemory:
    case hipDeviceAttributeMaxPitch:
    case hipDeviceAttributeTotalGlobalMem:
      *value = static_cast<int>(std::min<std::size_t>(0x7fffffff, p.totalGlobalMem));
      break;
    case hipDeviceAttributeTextureAlignment:
    case hipDeviceAttributeTexturePitchAlignment:
    case hipDeviceAttributeSurfaceAlignment:
      *value = 256;
      break;
    case hipDeviceAttributeClockInstructionRate:
      *value = p.clockInstructionRate;
      break;
    case hipDeviceAttributeMaxBlocksPerMultiProcessor:
    case hipDeviceAttributeAsyncEngineCount:
      *value = 2;
      break;
    case hipDeviceAttributeDirectManagedMemAccessFromHost:
      *value = quirks().late_kernargs ? 0 : 1;  // the host's own memory
      break;
    case hipDeviceAttributeCanMapHostMemory:
    case hipDeviceAttributeConcurrentKernels:
    case hipDeviceAttributeCooperativeLaunch:
    case hipDeviceAttributeManagedMemory:
    case hipDeviceAttributeMemoryPoolsSupported:
    case hipDeviceAttributeStreamPrioritiesSupported:
    case hipDeviceAttributeUnifiedAddressing:
    case hipDeviceAttributeIsLargeBar:
    case hipDeviceAttributeCanUseStreamWaitValue:
    case hipDeviceAttributeFineGrainSupport:
      *value = 1;
      break;
    default: {
      const bool known = (wanted >= 0 && wanted <= hipDeviceAttributeMemoryPoolsSupported) ||
                         (wanted >= hipDeviceAttributeAmdSpecificBegin && wanted <= hipDeviceAttributeFineGrainSupport);
      if (!known) return hipErrorInvalidValue;
      *value = 0;
    }
  }
  return hipSuccess;
}

hipError_t can_access(int* answer, int from, int to) {
  if (answer == nullptr) return hipErrorInvalidValue;
  if (!valid(from) || !valid(to)) return hipErrorInvalidDevice;
  *answer = from != to;
  return hipSuccess;
}

hipError_t enable_peer(int peer, unsigned flags) {
  if (flags != 0) return hipErrorInvalidValue;
  if (!valid(peer) || peer == t_device) return hipErrorInvalidDevice;
  const std::uint32_t bit = 1u << peer;
  return (current_device().peers.fetch_or(bit) & bit) != 0 ? hipErrorPeerAccessAlreadyEnabled : hipSuccess;
}

hipError_t disable_peer(int peer) {
  if (!valid(peer) || peer == t_device) return hipErrorInvalidDevice;
  const std::uint32_t bit = 1u << peer;
  return (current_device().peers.fetch_and(~bit) & bit) != 0 ? hipSuccess : hipErrorPeerAccessNotEnabled;
}

hipError_t reset(Device& device) {
  if (forked()) return hipErrorNotInitialized;
  (void)synchronize(device);
  close_streams(device);
  const auto removed = memory_table().remove_all([&](const Allocation& allocation) {
    const MemoryKind kind = allocation.info.kind;
    return allocation.info.device == device.ordinal() && kind != MemoryKind::Mapped && kind != MemoryKind::Global &&
           kind != MemoryKind::Pool && !allocation.registered;
  });
  for (const Allocation& allocation : removed) give_back(allocation);
  device.peers = 0;
  device.flags = 0;
  device.sticky.store(hipSuccess);
  return hipSuccess;
}

hipCtx_t context(int ordinal) { return reinterpret_cast<hipCtx_t>(&device(ordinal)); }

/// The device a context stands for; -1 when it is none.
int ordinal_of(hipCtx_t handle) {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    if (context(ordinal) == handle) return ordinal;
  }
  return -1;
}

template <typename Value>
hipError_t out(Value* place, Value value) {
  if (place == nullptr) return hipErrorInvalidValue;
  *place = value;
  return hipSuccess;
}

template <typename Value>
hipError_t out_for(int ordinal, Value* place, Value value) {
  return valid(ordinal) ? out(place, value) : hipErrorInvalidDevice;
}

std::atomic<std::size_t> g_stack_limit{1024}, g_heap_limit{4 << 20}, g_printf_limit{1 << 20};
std::atomic<int> g_cache_config{0}, g_shared_config{0};

std::atomic<std::size_t>* limit(hipLimit_t wanted) {
  constexpr int kStackSize = 0;  // hipLimitStackSize, from HIP 5.3 on
  if (static_cast<int>(wanted) == kStackSize) return &g_stack_limit;
  if (wanted == hipLimitMallocHeapSize) return &g_heap_limit;
  if (wanted == hipLimitPrintfFifoSize) return &g_printf_limit;
  return nullptr;
}

}  // namespace
}  // namespace cpuhip

using namespace cpuhip;

CPUHIP_EXPORT hipError_t hipGetDeviceCount(int* count) {
  return query_api("hipGetDeviceCount", [&](Call&) {
    const hipError_t result = out(count, device_count());
    return result == hipSuccess && device_count() == 0 ? hipErrorNoDevice : result;
  });
}

CPUHIP_EXPORT hipError_t hipSetDevice(int ordinal) {
  return query_api("hipSetDevice", [&](Call&) { return set_device(ordinal) ? hipSuccess : hipErrorInvalidDevice; });
}

CPUHIP_EXPORT hipError_t hipGetDevice(int* ordinal) {
  return query_api("hipGetDevice", [&](Call&) { return out(ordinal, t_device); });
}

CPUHIP_EXPORT hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  return query_api("hipDeviceGet", [&](Call&) { return out_for(ordinal, device, ordinal); });
}

CPUHIP_EXPORT hipError_t hipGetDeviceProperties(hipDeviceProp_t* place, int ordinal) {
  return query_api("hipGetDeviceProperties", [&](Call&) { return properties(place, ordinal); });
}

CPUHIP_EXPORT hipError_t hipGetDevicePropertiesR0000(hipDeviceProp_t* place, int ordinal) {
  return query_api("hipGetDevicePropertiesR0000", [&](Call&) { return properties(place, ordinal); });
}

CPUHIP_EXPORT hipError_t hipGetDevicePropertiesR0600(void* place, int ordinal) {
  return query_api("hipGetDevicePropertiesR0600", [&](Call&) { return properties_r0600(place, ordinal); });
}

#define CPUHIP_CHOOSE_ENTRY(name)                                                                             \
  CPUHIP_EXPORT hipError_t name(int* ordinal, const hipDeviceProp_t* wish) {                                  \
    return query_api(#name, [&](Call&) { return wish == nullptr ? hipErrorInvalidValue : out(ordinal, 0); }); \
  }
CPUHIP_CHOOSE_ENTRY(hipChooseDevice)
CPUHIP_CHOOSE_ENTRY(hipChooseDeviceR0000)
CPUHIP_CHOOSE_ENTRY(hipChooseDeviceR0600)

CPUHIP_EXPORT hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t wanted, int ordinal) {
  return query_api("hipDeviceGetAttribute", [&](Call&) { return attribute(value, static_cast<int>(wanted), ordinal); });
}

CPUHIP_EXPORT hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t ordinal) {
  return query_api("hipDeviceComputeCapability", [&](Call&) {
    const hipError_t result = out_for(ordinal, major, 9);
    return result == hipSuccess ? out(minor, 0) : result;
  });
}

CPUHIP_EXPORT hipError_t hipDeviceGetName(char* name, int length, hipDevice_t ordinal) {
  return query_api("hipDeviceGetName", [&](Call&) {
    char whole[256];
    if (!valid(ordinal)) return hipErrorInvalidDevice;
    if (name == nullptr || length <= 0) return hipErrorInvalidValue;
    name_device(whole, ordinal);
    std::snprintf(name, static_cast<std::size_t>(length), "%s", whole);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t ordinal) {
  return query_api("hipDeviceGetUuid", [&](Call&) {
    hipUUID value{};
    value.bytes[0] = static_cast<char>(ordinal + 1);
    return out_for(ordinal, uuid, value);
  });
}

CPUHIP_EXPORT hipError_t hipDeviceGetPCIBusId(char* id, int length, int ordinal) {
  return query_api("hipDeviceGetPCIBusId", [&](Call&) {
    if (!valid(ordinal)) return hipErrorInvalidDevice;
    if (id == nullptr || length < 13) return hipErrorInvalidValue;
    std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(ordinal + 1) & 0xffu);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipDeviceGetByPCIBusId(int* ordinal, const char* id) {
  return query_api("hipDeviceGetByPCIBusId", [&](Call&) {
    unsigned bus = 0;
    if (ordinal == nullptr || id == nullptr || std::sscanf(id, "0000:%x", &bus) != 1) return hipErrorInvalidValue;
    return out_for(static_cast<int>(bus) - 1, ordinal, static_cast<int>(bus) - 1);
  });
}

CPUHIP_EXPORT hipError_t hipDeviceGetP2PAttribute(int* value, hipDeviceP2PAttr wanted, int from, int to) {
  return query_api("hipDeviceGetP2PAttribute", [&](Call&) {
    if (value == nullptr || wanted > hipDevP2PAttrHipArrayAccessSupported) return hipErrorInvalidValue;
    if (!valid(from) || !valid(to) || from == to) return hipErrorInvalidDevice;
    *value = wanted == hipDevP2PAttrAccessSupported || wanted == hipDevP2PAttrNativeAtomicSupported;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipExtGetLinkTypeAndHopCount(int from, int to, std::uint32_t* link, std::uint32_t* hops) {
  return query_api("hipExtGetLinkTypeAndHopCount", [&](Call&) {
    constexpr std::uint32_t kXgmi = 4;
    if (!valid(from) || !valid(to) || from == to) return hipErrorInvalidDevice;
    const hipError_t result = out(link, kXgmi);
    return result == hipSuccess ? out(hops, std::uint32_t{1}) : result;
  });
}

CPUHIP_EXPORT hipError_t hipDeviceTotalMem(std::size_t* bytes, hipDevice_t ordinal) {
  return query_api("hipDeviceTotalMem",
                   [&](Call&) { return out_for(ordinal, bytes, static_cast<std::size_t>(config().memory_bytes)); });
}

CPUHIP_EXPORT hipError_t hipDeviceCanAccessPeer(int* answer, int from, int to) {
  return query_api("hipDeviceCanAccessPeer", [&](Call&) { return can_access(answer, from, to); });
}

CPUHIP_EXPORT hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  return api("hipDeviceEnablePeerAccess", [&](Call&) { return enable_peer(peer, flags); });
}

CPUHIP_EXPORT hipError_t hipDeviceDisablePeerAccess(int peer) {
  return api("hipDeviceDisablePeerAccess", [&](Call&) { return disable_peer(peer); });
}

CPUHIP_EXPORT hipError_t hipCtxEnablePeerAccess(hipCtx_t peer, unsigned flags) {
  return api("hipCtxEnablePeerAccess", [&](Call&) { return enable_peer(ordinal_of(peer), flags); });
}

CPUHIP_EXPORT hipError_t hipCtxDisablePeerAccess(hipCtx_t peer) {
  return api("hipCtxDisablePeerAccess", [&](Call&) { return disable_peer(ordinal_of(peer)); });
}

CPUHIP_EXPORT hipError_t hipDeviceSynchronize() {
  return api("hipDeviceSynchronize", [&](Call& call) {
    const hipError_t result = check_capture_device_synchronize();
    if (result != hipSuccess) call.leaves_last_error();
    return result == hipSuccess ? synchronize(current_device()) : result;
  });
}

CPUHIP_EXPORT hipError_t hipCtxSynchronize() {
  return api("hipCtxSynchronize", [](Call&) { return hipErrorNotSupported; });
}

CPUHIP_EXPORT hipError_t hipDeviceReset() {
  return query_api("hipDeviceReset",
                   [&](Call&) { return device_count() == 0 ? hipErrorNoDevice : reset(current_device()); });
}

CPUHIP_EXPORT hipError_t hipDevicePrimaryCtxReset(hipDevice_t ordinal) {
  return query_api("hipDevicePrimaryCtxReset",
                   [&](Call&) { return valid(ordinal) ? reset(device(ordinal)) : hipErrorInvalidDevice; });
}

CPUHIP_EXPORT hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api("hipDeviceGetStreamPriorityRange", [&](Call&) {
    if (least != nullptr) *least = 1;
    if (greatest != nullptr) *greatest = -1;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipSetDeviceFlags(unsigned flags) {
  return api("hipSetDeviceFlags", [&](Call&) {
    constexpr unsigned kKnown = hipDeviceScheduleMask | hipDeviceMapHost | hipDeviceLmemResizeToMax;
    if ((flags & ~kKnown) != 0) return hipErrorInvalidValue;
    current_device().flags = flags;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipGetDeviceFlags(unsigned* flags) {
  return api("hipGetDeviceFlags", [&](Call&) { return out(flags, current_device().flags.load()); });
}

CPUHIP_EXPORT hipError_t hipDeviceGetLimit(std::size_t* value, hipLimit_t wanted) {
  return api("hipDeviceGetLimit", [&](Call&) {
    const auto* place = limit(wanted);
    return place == nullptr ? hipErrorUnsupportedLimit : out(value, place->load());
  });
}

CPUHIP_EXPORT hipError_t hipDeviceSetLimit(hipLimit_t wanted, std::size_t value) {
  return api("hipDeviceSetLimit", [&](Call&) {
    auto* place = limit(wanted);
    if (place == nullptr) return hipErrorUnsupportedLimit;
    *place = value;
    return hipSuccess;
  });
}

#define CPUHIP_CONFIG_ENTRIES(prefix)                                                                       \
  CPUHIP_EXPORT hipError_t prefix##SetCacheConfig(hipFuncCache_t value) {                                   \
    return api(#prefix "SetCacheConfig", [&](Call&) { return g_cache_config = value, hipSuccess; });        \
  }                                                                                                         \
  CPUHIP_EXPORT hipError_t prefix##GetCacheConfig(hipFuncCache_t* value) {                                  \
    return api(#prefix "GetCacheConfig",                                                                    \
               [&](Call&) { return out(value, static_cast<hipFuncCache_t>(g_cache_config.load())); });      \
  }                                                                                                         \
  CPUHIP_EXPORT hipError_t prefix##SetSharedMemConfig(hipSharedMemConfig value) {                           \
    return api(#prefix "SetSharedMemConfig", [&](Call&) { return g_shared_config = value, hipSuccess; });   \
  }                                                                                                         \
  CPUHIP_EXPORT hipError_t prefix##GetSharedMemConfig(hipSharedMemConfig* value) {                          \
    return api(#prefix "GetSharedMemConfig",                                                                \
               [&](Call&) { return out(value, static_cast<hipSharedMemConfig>(g_shared_config.load())); }); \
  }
CPUHIP_CONFIG_ENTRIES(hipDevice)
CPUHIP_CONFIG_ENTRIES(hipCtx)

CPUHIP_EXPORT hipError_t hipCtxCreate(hipCtx_t* handle, unsigned, hipDevice_t ordinal) {
  return api("hipCtxCreate", [&](Call&) {
    if (!valid(ordinal)) return hipErrorInvalidDevice;
    const hipError_t result = out(handle, context(ordinal));
    if (result != hipSuccess) return result;
    t_contexts.push_back(t_device);
    t_device = ordinal;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipCtxDestroy(hipCtx_t handle) {
  return api("hipCtxDestroy", [&](Call&) { return ordinal_of(handle) >= 0 ? hipSuccess : hipErrorInvalidValue; });
}

CPUHIP_EXPORT hipError_t hipCtxPushCurrent(hipCtx_t handle) {
  return api("hipCtxPushCurrent", [&](Call&) {
    if (ordinal_of(handle) < 0) return hipErrorInvalidContext;
    t_contexts.push_back(t_device);
    t_device = ordinal_of(handle);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipCtxPopCurrent(hipCtx_t* handle) {
  return api("hipCtxPopCurrent", [&](Call&) {
    if (t_contexts.empty()) return hipErrorInvalidContext;
    if (handle != nullptr) *handle = context(t_device);
    t_device = t_contexts.back();
    t_contexts.pop_back();
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipCtxSetCurrent(hipCtx_t handle) {
  return api("hipCtxSetCurrent", [&](Call&) {
    if (handle == nullptr) return hipSuccess;
    return set_device(ordinal_of(handle)) ? hipSuccess : hipErrorInvalidContext;
  });
}

CPUHIP_EXPORT hipError_t hipCtxGetCurrent(hipCtx_t* handle) {
  return api("hipCtxGetCurrent", [&](Call&) { return out(handle, context(t_device)); });
}

CPUHIP_EXPORT hipError_t hipCtxGetDevice(hipDevice_t* ordinal) {
  return api("hipCtxGetDevice", [&](Call&) { return out(ordinal, t_device); });
}

CPUHIP_EXPORT hipError_t hipCtxGetFlags(unsigned* flags) {
  return api("hipCtxGetFlags", [&](Call&) { return out(flags, current_device().flags.load()); });
}

CPUHIP_EXPORT hipError_t hipCtxGetApiVersion(hipCtx_t handle, int* version) {
  return api("hipCtxGetApiVersion",
             [&](Call&) { return ordinal_of(handle) >= 0 ? out(version, 4) : hipErrorInvalidContext; });
}

CPUHIP_EXPORT hipError_t hipDevicePrimaryCtxRetain(hipCtx_t* handle, hipDevice_t ordinal) {
  return api("hipDevicePrimaryCtxRetain",
             [&](Call&) { return valid(ordinal) ? out(handle, context(ordinal)) : hipErrorInvalidDevice; });
}

CPUHIP_EXPORT hipError_t hipDevicePrimaryCtxRelease(hipDevice_t ordinal) {
  return api("hipDevicePrimaryCtxRelease", [&](Call&) { return valid(ordinal) ? hipSuccess : hipErrorInvalidDevice; });
}

CPUHIP_EXPORT hipError_t hipDevicePrimaryCtxGetState(hipDevice_t ordinal, unsigned* flags, int* active) {
  return api("hipDevicePrimaryCtxGetState", [&](Call&) {
    if (!valid(ordinal)) return hipErrorInvalidDevice;
    if (flags != nullptr) *flags = 0;
    if (active != nullptr) *active = ordinal == t_device;
    return hipSuccess;
  });
}

/// HIP 6.3 refuses it always, for what it calls in use; the documentation and CUDA do not.
CPUHIP_EXPORT hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t ordinal, unsigned flags) {
  return api("hipDevicePrimaryCtxSetFlags", [&](Call&) {
    if (!valid(ordinal)) return hipErrorInvalidDevice;
    if (ordinal == t_device) return hipErrorContextAlreadyInUse;
    device(ordinal).flags = flags;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind kind) {
  journal("hipCreateChannelDesc");
  return {x, y, z, w, kind};
}
