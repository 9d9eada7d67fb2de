// error_names.h: names and texts of HIP's errors.
#pragma once

#include <hip/hip_runtime_api.h>

namespace hipfront {

/// "hipErrorUnknown" and "unknown error" for what is none.
const char* error_name(hipError_t code);
const char* error_text(hipError_t code);

/// hipDrvGetErrorName and hipDrvGetErrorString: null and hipErrorInvalidValue for what is none.
hipError_t find_error_name(hipError_t code, const char** name);
hipError_t find_error_text(hipError_t code, const char** text);

}  // namespace hipfront
