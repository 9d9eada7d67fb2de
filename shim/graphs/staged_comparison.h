// staged_comparison.h: a staged launch, and the same without staging for the program, compared (launch_verifier.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <memory>
#include <vector>

#include "shim/graphs/launch_verifier.h"
#include "shim/verify/bounded_wait.h"

namespace graphpool {

class StagedComparison : private ComparedLaunch {
 public:
  /// `real_path`: an exec of the program's own graph, which serves the launch; null: a new exec of the recording does.
  StagedComparison(LaunchVerifier& verifier, const AskedLaunch& asked, LaunchSelected selected,
                   std::unique_ptr<Variant> real_path) noexcept
      : ComparedLaunch(verifier, asked, selected, std::move(real_path)),
        plan_(asked.exec.variant->plan),
        shadows_(asked.exec.device) {}

  /// Makes the launch, once. Its result is the program's.
  hipError_t launch();

 private:
  bool prepare();
  hipError_t launch_real(hipError_t* copied);
  bool wait_until_complete() const;
  bool compare();
  hipError_t bind_ring(const std::vector<char*>& buffers);
  void work_on(WorksOn memory);
  void keep_real();

  const std::shared_ptr<const StagePlan> plan_;
  BoundedShadows shadows_;
  std::vector<char*> bases_;  ///< the program's buffers
};

}  // namespace graphpool
