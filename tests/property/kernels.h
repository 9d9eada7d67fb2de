// kernels.h: the kernels all random programs share, compiled once (hipRTC), loaded on every device. Each notes in its
// buffer that it ran, so that a missing, doubled or misordered operation shows in the bytes.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <vector>

#include "step.h"

namespace property {

class Kernels {
 public:
  Kernels();
  hipFunction_t get(std::int64_t what, int device) const {
    return functions_[static_cast<std::size_t>(device)][static_cast<std::size_t>(what)];
  }
  int devices() const { return static_cast<int>(functions_.size()); }

 private:
  std::vector<std::vector<hipFunction_t>> functions_;
};

/// The arguments of one kernel call, in memory of their own that is overwritten when the call has been made: nobody may
/// look at it later. What lies between members of structures is noise, another one each time.
class Arguments {
 public:
  Arguments(const Work& work, int* dst, const int* src, int count);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  ~Arguments();
  void** params() { return pointers_.data(); }
  void** extra();

 private:
  template <typename Value>
  void add(const Value& value);
  alignas(16) unsigned char bytes_[128];
  std::size_t used_ = 0;
  std::vector<void*> pointers_;
  void* extra_[5];
};

}  // namespace property
