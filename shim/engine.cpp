#include "shim/engine.h"

#include <unistd.h>

#include "policy/load.h"
#include "shim/coverage.h"
#include "shim/graph/graphs.h"
#include "shim/log.h"
#include "shim/next.h"
#include "shim/report/report.h"

namespace graphpool {
namespace {

/// Set once, before any body runs; never destroyed.
const Policy* g_policy = nullptr;

void configure_graphs(const Policy& policy) {
  GraphSettings& settings = graphs().settings();
  settings.virtual_capture = policy.graph.virtual_capture;
  settings.reuse = policy.graph.reuse;
  settings.strategy = policy.graph.strategy;
  settings.most_templates = policy.graph.recordings;
  settings.most_variants = policy.graph.variants;
  settings.patch_budget = policy.graph.patch_budget;
}

}  // namespace

const Policy& policy() noexcept { return *g_policy; }

bool start_engine() noexcept {
  Loaded loaded = load(read_policy_file, environ);
  if (loaded.policy.has_value()) open_log(loaded.policy->log.level, loaded.policy->log.file);
  for (const std::string& warning : loaded.warnings) log_warn("%s", warning.c_str());
  if (!loaded.policy.has_value()) {
    for (const std::string& error : loaded.errors) log_error("%s", error.c_str());
    log_error("the policy cannot be used: every call of this process is passed through");
    return false;
  }
  if (!loaded.policy->enabled) return false;
  try {
    g_policy = new Policy(std::move(*loaded.policy));
    configure_graphs(*g_policy);
  } catch (const std::bad_alloc&) {
    return false;
  }
  check_coverage();
  write_report_at_exit(g_policy->report.file);
  return true;
}

}  // namespace graphpool
