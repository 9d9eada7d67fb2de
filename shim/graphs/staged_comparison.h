// staged_comparison.h: compares a staged launch with the same launch without staging (launch_verifier.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <memory>
#include <vector>

#include "shim/graphs/launch_verifier.h"
#include "shim/verify/bounded_wait.h"

namespace graphpool {

class StagedComparison : private ComparedLaunch {
 public:
  /// The launch is served by the exec of the program's own graph, if that was found; else by a new one of the
  /// recording.
  StagedComparison(LaunchVerifier& verifier, const AskedLaunch& asked, LaunchSelected selected,
                   FoundExec found) noexcept
      : ComparedLaunch(verifier, asked, selected, std::move(found)), shadows_(asked.exec.device) {}

  /// Makes the launch, once. Its result is the program's.
  hipError_t launch();

 private:
  bool prepare();
  hipError_t launch_real(hipError_t* copied);
  bool wait_until_complete() const;
  bool compare();
  hipError_t bind_ring(const std::vector<char*>& present, const std::vector<char*>& buffers);
  void work_on(WorksOn memory);

  BoundedShadows shadows_;
  std::vector<char*> bases_;  ///< the program's buffers
};

}  // namespace graphpool
