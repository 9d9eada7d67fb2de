// system.cpp: the runtime as a whole, and functions that nobody implements here.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "agents.h"
#include "checked.h"
#include "faults.h"
#include "settings.h"
#include "signals.h"

namespace hsa_cpu {
namespace {

template <typename Value>
hsa_status_t answer(void* out, Value value) {
  std::memcpy(out, &value, sizeof value);
  return HSA_STATUS_SUCCESS;
}

/// Loaded code is read by the host where it lies.
hsa_status_t query_host_address(const void* device, const void** host) {
  *host = device;
  return HSA_STATUS_SUCCESS;
}

/// Says once that this function is not implemented.
hsa_status_t not_implemented(const char* name, std::atomic<bool>& told) {
  if (!told.exchange(true)) complain("%s is not implemented", name);
  return HSA_STATUS_ERROR;
}

}  // namespace
}  // namespace hsa_cpu

using namespace hsa_cpu;

HSA_CPU_API hsa_status_t hsa_init() {
  agents();
  watch_host();
  watch_devices();
  return HSA_STATUS_SUCCESS;
}
HSA_CPU_API hsa_status_t hsa_shut_down() { return HSA_STATUS_SUCCESS; }

HSA_CPU_API hsa_status_t hsa_status_string(hsa_status_t status, const char** out) {
  switch (status) {
    case HSA_STATUS_SUCCESS:
      *out = "HSA_STATUS_SUCCESS";
      break;
    case HSA_STATUS_ERROR_OUT_OF_RESOURCES:
      *out = "HSA_STATUS_ERROR_OUT_OF_RESOURCES";
      break;
    case HSA_STATUS_ERROR_INVALID_ARGUMENT:
      *out = "HSA_STATUS_ERROR_INVALID_ARGUMENT";
      break;
    case HSA_STATUS_ERROR_INVALID_CODE_OBJECT:
      *out = "HSA_STATUS_ERROR_INVALID_CODE_OBJECT";
      break;
    default:
      *out = "an error of HSA on the CPU";
      break;
  }
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_system_get_info(hsa_system_info_t what, void* out) {
  switch (static_cast<int>(what)) {
    case HSA_SYSTEM_INFO_VERSION_MAJOR:
    case HSA_SYSTEM_INFO_VERSION_MINOR:
    case kExtVersionMajor:
      return answer(out, std::uint16_t{1});
    case kExtVersionMinor:
      return answer(out, std::uint16_t{14});
    case HSA_SYSTEM_INFO_TIMESTAMP:
      return answer(out, now_ns());
    case HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY:
      return answer(out, std::uint64_t{1000000000});
    case HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT:
      return answer(out, kForever);
    case HSA_SYSTEM_INFO_ENDIANNESS:
      return answer(out, std::uint32_t{HSA_ENDIANNESS_LITTLE});
    case HSA_SYSTEM_INFO_MACHINE_MODEL:
      return answer(out, std::uint32_t{HSA_MACHINE_MODEL_LARGE});
    case HSA_SYSTEM_INFO_EXTENSIONS: {
      std::uint8_t bits[128] = {};
      bits[HSA_EXTENSION_AMD_LOADER / 8] |= static_cast<std::uint8_t>(1u << (HSA_EXTENSION_AMD_LOADER % 8));
      std::memcpy(out, bits, sizeof bits);
      return HSA_STATUS_SUCCESS;
    }
    case HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED:
    case HSA_AMD_SYSTEM_INFO_SVM_ACCESSIBLE_BY_DEFAULT:
    case kMwaitxEnabled:
    case kXnackEnabled:
      return answer(out, false);
    case kDmabufSupported:
    case kVirtualMemoryApiSupported:
      return answer(out, true);
    default:
      complain("hsa_system_get_info: %#x is not known", static_cast<unsigned>(what));
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

HSA_CPU_API hsa_status_t hsa_system_extension_supported(std::uint16_t extension, std::uint16_t, std::uint16_t,
                                                        bool* out) {
  *out = extension == HSA_EXTENSION_AMD_LOADER;
  return HSA_STATUS_SUCCESS;
}
HSA_CPU_API hsa_status_t hsa_agent_extension_supported(std::uint16_t, hsa_agent_t, std::uint16_t, std::uint16_t,
                                                       bool* out) {
  *out = false;
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_system_get_major_extension_table(std::uint16_t extension, std::uint16_t, std::size_t bytes,
                                                              void* table) {
  if (extension != HSA_EXTENSION_AMD_LOADER) return HSA_STATUS_ERROR;
  hsa_ven_amd_loader_1_01_pfn_t functions{};
  functions.hsa_ven_amd_loader_query_host_address = query_host_address;
  std::memset(table, 0, bytes);
  std::memcpy(table, &functions, std::min(bytes, sizeof functions));
  return HSA_STATUS_SUCCESS;
}

// Nothing here depends on these.
HSA_CPU_API hsa_status_t hsa_amd_agent_set_async_scratch_limit(hsa_agent_t, std::size_t) { return HSA_STATUS_SUCCESS; }
HSA_CPU_API hsa_status_t hsa_amd_enable_logging(std::uint8_t*, void*) { return HSA_STATUS_SUCCESS; }
HSA_CPU_API hsa_status_t hsa_amd_coherency_set_type(hsa_agent_t, hsa_amd_coherency_type_t) {
  return HSA_STATUS_SUCCESS;
}

#define HSA_CPU_NOT_IMPLEMENTED(name)                                                                     \
  extern "C" __attribute__((visibility("default"))) hsa_status_t name##_not_implemented() __asm__(#name); \
  hsa_status_t name##_not_implemented() {                                                                 \
    static std::atomic<bool> told{false};                                                                 \
    return not_implemented(#name, told);                                                                  \
  }
HSA_CPU_NOT_IMPLEMENTED(hsa_amd_ais_file_read)
HSA_CPU_NOT_IMPLEMENTED(hsa_amd_ais_file_write)
HSA_CPU_NOT_IMPLEMENTED(hsa_amd_svm_attributes_get)
HSA_CPU_NOT_IMPLEMENTED(hsa_amd_svm_attributes_set)
HSA_CPU_NOT_IMPLEMENTED(hsa_amd_svm_prefetch_async)
