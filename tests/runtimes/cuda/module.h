// module.h: device code as programs hand it over -> modules of the driver.
#pragma once

#include <hip/hip_runtime_api.h>

#include "driver.h"

namespace cudahip {

/// The id of our entry in an offload bundle. Its code is a cubin or PTX, which the driver compiles for any newer
/// device.
inline constexpr const char* kBundleEntry = "hipv4-nvptx64-nvidia-cuda--sm_90";

/// Loads for the current device: an offload bundle, plain or compressed; a code object of hipRTC (rtc_object.h); a
/// cubin, PTX or fat binary of NVIDIA's.
hipError_t load_image(const void* image, cu::Module** module);

/// The kernel a host stub was registered for; hipErrorInvalidSymbol for an unknown stub: registration.cpp.
hipError_t function_of_stub(const void* stub, cu::Function** function);

}  // namespace cudahip
