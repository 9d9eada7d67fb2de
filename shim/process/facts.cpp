#include "shim/process/facts.h"

#include <limits>

#include "shim/capture/session.h"
#include "shim/execs/exec_size.h"
#include "shim/hip/quirks.h"
#include "shim/memory/device_memory.h"
#include "shim/recording/patch_table.h"

namespace graphpool {
namespace {

bool always(int) { return true; }
bool never(int) { return false; }

template <Defect defect>
bool without(int version) {
  return !has_defect(defect, version);
}
template <NodeClass node>
bool patched(int version) {
  return patch_is_exact(node, version);
}
/// Whether kernels are patched, and an exec has limited room for their arguments (execs/exec_size.h).
bool has_little_room(int version) {
  const std::size_t room = room_for_patches(version);
  return patch_is_exact(NodeClass::kKernel, version) && room > 0 && room < std::numeric_limits<std::size_t>::max();
}
bool captures_all_launches(int version) { return version >= kCapturesAllLaunches; }
bool captures_frees(int version) { return version >= kCapturesFrees; }

constexpr const char* kNoLibrary = "enabled = false";
constexpr const char* kNoPool = "pool.enabled = false";
constexpr const char* kNoVmm = "pool.backing = \"classic\"";
constexpr const char* kNoGraphs = "graph.compare = false\ngraph.reuse = false";
constexpr const char* kNoPatches = "graph.strategy = \"new_exec\"";
constexpr const char* kNoPatchesOfCopies = "graph.strategy = \"new_exec\"\ngraph.stage = \"never\"";
constexpr const char* kNoStaging = "graph.stage = \"never\"";

constexpr Fact kFacts[] = {
    // Captures
    {"module_launch_is_captured", captures_all_launches, kNoLibrary},
    {"operations_are_captured", always, kNoGraphs},
    {"capture_names_its_last_node", always, kNoGraphs},
    {"capture_id_stays", always, kNoGraphs},
    {"empty_capture_ends", always, kNoGraphs},
    {"empty_forks_join", always, kNoGraphs},
    {"event_forgets_nodes", without<Defect::kEventsKeepNodes>, kNoGraphs},
    {"capture_takes_frees", captures_frees, kNoVmm},
    {"capture_can_be_asked_for", always, kNoLibrary},
    {"capture_modes_are_exchanged", always, kNoLibrary},
    {"relaxed_thread_may_query", always, kNoLibrary},
    {"relaxed_thread_may_wait", never, ""},
    {"relaxed_thread_may_allocate", always, kNoPool},
    {"relaxed_thread_may_instantiate", always, kNoGraphs},
    {"queries_are_no_nodes", always, kNoGraphs},
    {"capture_refuses_malloc", never, ""},
    {"refused_call_spoils_capture", never, ""},
    {"spoilt_capture_is_over", never, ""},
    // Graphs and execs
    {"set_kernel_reaches_launch", patched<NodeClass::kKernel>, kNoPatches},
    {"set_kernel_copies_arguments", patched<NodeClass::kKernel>, kNoPatches},
    {"set_kernel_takes_little_memory", has_little_room, kNoPatches},
    {"set_fill_reaches_launch", patched<NodeClass::kFill>, kNoPatchesOfCopies},
    {"set_copy_reaches_launch", patched<NodeClass::kDeviceCopy>, kNoPatchesOfCopies},
    {"host_copy_waits_for_launch", never, ""},
    {"set_node_reaches_next_exec", patched<NodeClass::kKernel>, kNoGraphs},
    {"node_copies_arguments", always, kNoGraphs},
    {"update_reaches_launch", never, ""},
    {"node_types_are_in_order", always, kNoGraphs},
    {"captured_kernel_has_parameters", captures_all_launches, kNoGraphs},
    {"captured_fill_has_parameters", always, kNoGraphs},
    {"edges_follow_streams", always, kNoGraphs},
    {"clone_finds_nodes", always, kNoGraphs},
    {"exec_outlives_graph", always, kNoGraphs},
    {"destroyed_exec_completes", never, ""},
    {"empty_graph_runs", never, ""},
    // Memory, errors, layouts
    {"last_error_goes_by_version", always, kNoLibrary},
    {"captured_calls_leave_errors", never, ""},
    {"device_type_goes_by_version", always, kNoLibrary},
    {"driver_copies_go_by_version", always, kNoLibrary},
    {"driver_fills_go_by_version", always, kNoLibrary},
    {"free_waits_for_streams", always, kNoPool},
    {"malloc_waits_for_nothing", always, kNoPool},
    {"strange_address_is_refused", always, kNoPool},
    {"operands_are_bounded", always, kNoPool},
    {"buffer_ids_count_up", always, kNoPool},
    {"interior_free_is_refused", never, ""},
    {"values_are_written", always, kNoStaging},
    // Mappings: where they do not work at all classic memory is used.
    {"mappings_work", never, ""},
    {"parts_are_mapped", without<Defect::kMapWholeReservation>, kNoVmm},
    {"mapping_waits_for_nothing", without<Defect::kMapWaits>, kNoVmm},
    {"mapping_leaves_fills", without<Defect::kMapSpoilsFills>, kNoVmm},
    {"mapping_tells_errors", without<Defect::kMapErrorsHidden>, kNoVmm},
    {"reservations_are_aligned", without<Defect::kReserveIgnoresHints>, kNoVmm},
    {"strange_mapping_is_refused", without<Defect::kUnmapUnknownCrashes>, kNoVmm},
    {"handles_of_mappings_are_refused", without<Defect::kIpcOfVmmCrashes>, kNoVmm},
    // Code, costs
    {"code_is_known", always, kNoGraphs},
    {"setting_costs_less_than_an_exec", patched<NodeClass::kKernel>, kNoPatches},
    {"launch_costs_less_than_capture", always, kNoGraphs},
};

}  // namespace

std::span<const Fact> facts() noexcept { return kFacts; }

}  // namespace graphpool
