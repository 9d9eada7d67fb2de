// kernels.h: the kernels all random programs share, compiled once (hipRTC), loaded on every device. Each notes in its
// buffer that it ran, so that a missing, doubled or misordered operation shows in the bytes.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <vector>

#include "step.h"

namespace property {

/// The kernels of modules that come and go, as the first operations name them. One: handles that come back at once come
/// back in another order, and it is to have the handle that the one before it had.
inline constexpr const char* kOfModules[] = {"mix"};

class Kernels {
 public:
  Kernels();
  hipFunction_t get(std::int64_t what, int device) const {
    return functions_[static_cast<std::size_t>(device)][place(what)];
  }
  /// The same kernel as a compiled program launches it: the runtime finds the function by the current device.
  static const void* stub(std::int64_t what);
  /// Code with kernels of the same names (kOfModules) that do something else. Compiled when it is first asked for.
  static const std::vector<char>& module_code(std::int64_t variant);
  int devices() const { return static_cast<int>(functions_.size()); }

 private:
  static std::size_t place(std::int64_t what);
  void register_stubs(const std::vector<char>& code);

  std::vector<std::vector<hipFunction_t>> functions_;
  std::vector<char> image_;  ///< what a compiled program carries
};

/// Overwrites memory that was given to a call, for certain: nobody may look at it later.
void scribble(void* memory, std::size_t bytes);

/// A structure that a call is given, overwritten when the call has been made.
template <typename Params>
class Lent {
 public:
  explicit Lent(const Params& params) : params_(params) {}
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() { scribble(&params_, sizeof params_); }
  Params* get() { return &params_; }

 private:
  Params params_;
};

/// The nodes a call is told to add a node behind, the same.
class LentNodes {
 public:
  explicit LentNodes(const std::vector<hipGraphNode_t>& nodes) : nodes_(nodes) {}
  LentNodes(const LentNodes&) = delete;
  LentNodes& operator=(const LentNodes&) = delete;
  ~LentNodes() { scribble(nodes_.data(), nodes_.size() * sizeof(hipGraphNode_t)); }
  const hipGraphNode_t* data() const { return nodes_.data(); }
  std::size_t size() const { return nodes_.size(); }

 private:
  std::vector<hipGraphNode_t> nodes_;
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
  /// The runtime looks at them after the call, too.
  void stay() { stays_ = true; }
  bool stays() const { return stays_; }
  void** extra();

 private:
  template <typename Value>
  void add(const Value& value);
  alignas(16) unsigned char bytes_[128];
  std::size_t used_ = 0;
  bool stays_ = false;
  std::vector<void*> pointers_;
  void* extra_[5];
};

}  // namespace property
