#include "shim/report/report.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>
#include <vector>

#include "policy/policy.h"
#include "policy/readers.h"
#include "shim/base/file_signals.h"
#include "shim/base/fork_lock.h"
#include "shim/base/guest_scope.h"
#include "shim/base/lock_rank.h"
#include "shim/base/log.h"
#include "shim/base/waits.h"
#include "shim/callsite/callsite.h"
#include "shim/compile/permits.h"
#include "shim/costs/way_counts.h"
#include "shim/graphs/graph_report.h"
#include "shim/graphs/graphs.h"
#include "shim/hip/entry.h"
#include "shim/hip/lookup.h"
#include "shim/hip/process_policy.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/slot_set.h"
#include "shim/recording/mismatch.h"
#include "shim/report/about.h"
#include "shim/report/json.h"
#include "shim/report/report_file.h"
#include "shim/report/samples.h"
#include "shim/report/trace_file.h"
#include "shim/report/version.h"
#include "shim/verify/stale_addresses.h"

namespace graphpool {
namespace {

/// Held by the thread that writes a report or registers it.
constinit ForkLock g_writing;
// Made once, never destroyed.
std::string* g_file GUARDED_BY(g_writing) PT_GUARDED_BY(g_writing) = nullptr;  ///< the pattern
/// The file of this process, from its first report on.
std::string* g_name GUARDED_BY(g_writing) PT_GUARDED_BY(g_writing) = nullptr;
Samples* g_samples GUARDED_BY(g_writing) PT_GUARDED_BY(g_writing) = nullptr;

void write_reasons(JsonWriter& json, std::string_view key, const Reasons& reasons) {
  json.key(key).open_array();
  for (const auto& [reason, count] : reasons)
    json.open_object().key("reason").value(reason).key("count").value(count).close_object();
  json.close_array();
}

void write_materialisations(JsonWriter& json) {
  json.key("materialisations").open_array();
  for (const Materialisation& materialisation : graphs().materialisations.all()) {
    json.open_object().key("reason").value(materialisation.reason).key("count").value(materialisation.count);
    if (materialisation.graph != 0) json.key("graph").value(materialisation.graph);
    if (materialisation.operation != 0) json.key("operation").value(std::uint64_t{materialisation.operation});
    if (materialisation.kind != nullptr) json.key("kind").value(materialisation.kind);
    if (materialisation.kernel != nullptr) json.key("kernel").value(materialisation.kernel);
    if (materialisation.differs != nullptr) json.key("differs").value(materialisation.differs);
    json.close_object();
  }
  json.close_array();
}

/// The measured or assumed costs from which the report's estimates are computed.
void write_costs(JsonWriter& json) {
  json.key("costs").open_object();
  for (std::size_t i = 0; i < kCosts; ++i) {
    const Cost cost = static_cast<Cost>(i);
    json.key(cost_name(cost)).open_object();
    json.key("picoseconds").value(static_cast<std::uint64_t>(costs().ns(cost) * 1000));
    json.key("measured").value(costs().measured(cost));
    json.close_object();
  }
  json.close_object();
}

/// A call site as text: the innermost frames of the program, the innermost first.
std::string call_site_text(std::uint32_t call_site) {
  constexpr std::size_t kFrames = 4;
  std::string text;
  StackSite site(callsites(), call_site, 0);
  for (std::size_t i = 0; i < std::min(kFrames, site.depth()); ++i) {
    if (i != 0) text += " < ";
    text += site.frame(i);
  }
  return text;
}

/// Where the program captured a graph first. Empty: it is not known, or the graph was built node by node.
std::string captured_by_text(const RecordingReport& recording) {
  if (recording.captured_by != 0) return call_site_text(recording.captured_by);
  if (recording.captured_at == nullptr) return {};
  const std::string_view text =
      callsites().symbols().text(reinterpret_cast<std::uintptr_t>(recording.captured_at), Symbols::generation());
  return text.starts_with('?') ? std::string() : std::string(text);
}

void write_moved(JsonWriter& json, const RecordingReport& recording) {
  json.key("operands_moved").open_array();
  for (const MovedReport& moved : recording.moved) {
    json.open_object();
    json.key("operation").value(std::uint64_t{moved.operand.operation});
    json.key("kind").value(moved.kind);
    if (moved.kernel != nullptr) json.key("kernel").value(moved.kernel);
    json.key("argument").value(std::uint64_t{moved.operand.argument});
    json.key("times").value(moved.operand.times);
    if (moved.operand.rule != 0) json.key("rule").value(policy().buffers[moved.operand.rule - 1].name);
    if (moved.operand.call_site != 0) json.key("allocated_by").value(call_site_text(moved.operand.call_site));
    json.close_object();
  }
  json.close_array();
  json.key("operands_moved_others").value(recording.other_moves);
}

void write_recording(JsonWriter& json, const RecordingReport& recording) REQUIRES(g_writing) {
  json.open_object();
  json.key("graph").value(recording.number);
  if (recording.dropped != nullptr) json.key("dropped").value(recording.dropped);
  if (recording.first_kernel != nullptr)
    json.key("first_kernel").value(recording.first_kernel).key("last_kernel").value(recording.last_kernel);
  const std::string captured_by = captured_by_text(recording);
  if (!captured_by.empty()) json.key("captured_by").value(captured_by);
  json.key("operations").value(std::uint64_t{recording.operations});
  json.key("variants").value(std::uint64_t{recording.variants});
  json.key("device_bytes").value(std::uint64_t{recording.device_bytes});
  json.key("host_bytes").value(std::uint64_t{recording.host_bytes});
  json.key("captures").value(recording.statistics.captures);
  json.key("captures_avoided").value(recording.statistics.captures_avoided);
  json.key("materialised").value(recording.statistics.materialised);
  json.key("instantiates").value(recording.statistics.instantiates);
  json.key("instantiates_avoided").value(recording.statistics.instantiates_avoided);
  json.key("updates_avoided").value(recording.statistics.updates_avoided);
  json.key("native_updates").value(recording.statistics.native_updates);
  json.key("execs_instead_of_updates").value(recording.statistics.instead_of_update);
  json.key("bindings").value(recording.statistics.bindings);
  json.key("longest_return").value(recording.statistics.longest_return);
  json.key("volatile_words").value(std::uint64_t{recording.volatile_words});
  json.key("patched_nodes").value(recording.statistics.patched_nodes);
  json.key("execs_replaced").value(recording.statistics.replaced);
  json.key("execs_evicted").value(recording.statistics.evicted);
  json.key("bytes_staged").value(recording.statistics.staged.bytes);
  if (recording.not_staged != nullptr) json.key("not_staged").value(recording.not_staged);
  if (recording.staging_open) {
    json.key("staging_chosen").value(recording.staging_chosen);
    json.key("staging_changes").value(recording.staging_changes);
  }
  if (recording.slot_sets != 0 || recording.statistics.staged.launches != 0) {
    json.key("staged_launches").value(recording.statistics.staged.launches);
    json.key("launches_without_copies").value(recording.statistics.staged.without_copies);
    json.key("submissions").value(recording.statistics.staged.submissions);
    json.key("patched_copies").value(recording.statistics.staged.patched);
    json.key("ring_waits").value(recording.statistics.ring_waits);
    json.key("ring_timeouts").value(recording.statistics.ring_timeouts);
    json.key("slot_sets").value(std::uint64_t{recording.slot_sets});
    json.key("slot_bytes").value(std::uint64_t{recording.slot_bytes});
  }
  json.key("captures_verified").value(recording.statistics.verified);
  json.key("launches_verified").value(recording.statistics.launches_verified);
  json.key("differences").value(recording.statistics.differences);
  json.key("launches").open_object();
  for (std::size_t i = 0; i < kWays; ++i) json.key(way_name(static_cast<Way>(i))).value(recording.launches[i]);
  json.close_object();
  g_samples->write_graph(json, recording.number);
  write_moved(json, recording);
  json.key("estimated_ns_saved").value(static_cast<std::int64_t>(recording.saved_ns));
  json.close_object();
}

void write_graphs(JsonWriter& json, const std::vector<RecordingReport>& recordings) REQUIRES(g_writing) {
  const GraphTotals totals = graph_totals();
  json.key("graphs").open_object();
  json.key("recordings").value(totals.recordings);
  json.key("recordings_dropped").value(totals.recordings_dropped);
  json.key("execs_kept").value(totals.variants);
  json.key("execs_given_back").value(totals.execs_given_back);
  json.key("execs_made_again").value(totals.execs_made_again);
  json.key("captures_recorded").value(totals.captures);
  json.key("captures_avoided").value(totals.withheld_captures);
  json.key("captures_refused").value(totals.refused);
  json.key("instantiates").value(totals.instantiates);
  json.key("instantiates_avoided").value(totals.instantiates_avoided);
  json.key("updates").value(totals.updates);
  json.key("updates_avoided").value(totals.updates_avoided);
  json.key("launches").value(totals.launches);
  json.key("launches_by_way").open_object();
  for (std::size_t i = 0; i < kWays; ++i)
    json.key(way_name(static_cast<Way>(i))).value(g_launches_by_way.count(static_cast<Way>(i)));
  json.close_object();
  json.key("estimated_ns_saved").value(static_cast<std::int64_t>(totals.saved_ns));
  json.key("mismatches").open_object();
  for (std::size_t i = 0; i < kMismatchNames.size(); ++i) json.key(kMismatchNames[i]).value(g_mismatches.count(i));
  json.close_object();
  write_costs(json);
  write_reasons(json, "refusals", graph_refusals());
  write_reasons(json, "left_to_runtime", left_to_runtime());
  write_materialisations(json);
  json.close_object();
  json.key("recordings").open_array();
  for (const RecordingReport& recording : recordings) write_recording(json, recording);
  json.close_array();
}

/// Writes what graph.check found: addresses of freed memory, for example, or of memory that is not what it was.
void write_check(JsonWriter& json) {
  if (!policy().graph.check) return;
  json.key("check").open_object().key("launches").value(stale_addresses().launches());
  json.key("stale").open_array();
  for (const StaleAddress& stale : stale_addresses().found()) {
    json.open_object().key("graph").value(stale.graph).key("operation").value(std::uint64_t{stale.operation});
    json.key("kind").value(stale.what);
    if (stale.kernel != nullptr) json.key("kernel").value(stale.kernel);
    json.key("argument").value(std::uint64_t{stale.argument}).key("hidden").value(stale.hidden);
    json.key("why").value(word_of(stale.kind)).key("times").value(stale.times);
    if (stale.allocated_by != 0) json.key("allocated_by").value(call_site_text(stale.allocated_by));
    if (stale.freed_by != 0) json.key("freed_by").value(call_site_text(stale.freed_by));
    json.close_object();
  }
  json.close_array().close_object();
}

void write_memory(JsonWriter& json) {
  json.key("memory").open_object();
  json.key("kept").open_array();
  for (const PoolMemory& memory : device_memory().memory()) {
    json.open_object();
    json.key("device").value(static_cast<std::uint64_t>(memory.device));
    json.key("blocks").value(std::uint64_t{memory.kept_blocks});
    json.key("bytes").value(std::uint64_t{memory.kept_bytes});
    json.key("peak_bytes").value(std::uint64_t{memory.peak_kept_bytes});
    json.key("chunks").value(std::uint64_t{memory.chunks});
    json.close_object();
  }
  json.close_array();
  const SlotTotals slots = slot_totals();
  json.key("slots").open_object();
  json.key("sets").value(std::uint64_t{slots.sets});
  json.key("slots").value(std::uint64_t{slots.slots});
  json.key("bytes").value(std::uint64_t{slots.bytes});
  json.key("peak_bytes").value(std::uint64_t{slots.peak_bytes});
  json.close_object();
  json.key("execs").open_array();
  for (const ExecMemory& memory : exec_memory_held()) {
    json.open_object();
    json.key("device").value(static_cast<std::uint64_t>(memory.device));
    json.key("estimated_bytes").value(std::uint64_t{memory.bytes});
    json.key("estimated_peak_bytes").value(std::uint64_t{memory.peak_bytes});
    json.close_object();
  }
  json.close_array();
  json.close_object();
}

void write_pool(JsonWriter& json) {
  const PoolCounters counters = blocks().counted();
  json.key("pool").open_object();
  json.key("allocations_from_runtime").value(counters.fresh);
  json.key("allocations_reused").value(counters.reused);
  json.key("frees_kept").value(counters.kept);
  json.key("frees_by_runtime").value(counters.real);
  json.key("evicted").value(counters.evicted);
  json.key("given_back").value(counters.trimmed);
  json.key("given_back_idle").value(counters.idle);
  json.close_object();
}

/// Writes which threads wait now for a slot set or a compile permit, and why.
void write_waits(JsonWriter& json) {
  json.key("waiting").open_array();
  for (const WaitSeen& wait : waits_now()) {
    json.open_object().key("for").value(wait.what);
    if (wait.reason != nullptr) json.key("because").value(wait.reason);
    if (wait.graph != 0) json.key("graph").value(wait.graph);
    json.key("thread").value(wait.thread).key("ms").value(wait.ms).close_object();
  }
  json.close_array();
}

const char* text_of(HolderState state) noexcept {
  switch (state) {
    case HolderState::kRuns:
      return "running";
    case HolderState::kLent:
      return "lent";
    case HolderState::kSleeps:
      return "asleep";
  }
  return "running";  // another process has overwritten the table
}

void write_holders(JsonWriter& json, const CompileReport& report) {
  json.key("holders").open_array();
  for (std::uint32_t i = 0; i < report.holder_count; ++i) {
    const PermitHolder& holder = report.holders[i];
    json.open_object().key("process").value(static_cast<std::uint64_t>(holder.process));
    json.key("class").value(holder.size_class);
    json.key("state").value(text_of(holder.state)).close_object();
  }
  json.close_array();
}

void write_scope(JsonWriter& json, const CompileReport& report) {
  json.key("scope").open_object();
  json.key("name").value(name_of(report.scope));
  json.key("permits").value(report.counts.granted);
  json.key("rides").value(report.counts.ridden);
  json.key("waited").value(report.counts.waited);
  json.key("waited_ms").value(report.counts.waited_ns / 1'000'000);
  json.key("went_on").value(report.counts.went_on);
  json.key("without_permit").value(report.counts.without);
  json.key("peak_in_flight").value(std::uint64_t{report.peak_in_flight});
  json.key("most_held_bytes").value(report.most_held_bytes);
  if (report.least_headroom_bytes != ~std::uint64_t{0})
    json.key("least_headroom_bytes").value(report.least_headroom_bytes);
  write_holders(json, report);
  json.close_object();
}

void write_compile(JsonWriter& json) {
  CompileReport report;
  if (!read_compile_report(report)) return;
  const PermitCounters& counters = report.process;
  json.key("compile").open_object();
  json.key("permits").value(counters.taken);
  json.key("rides").value(counters.ridden);
  json.key("waited").value(counters.waited);
  json.key("waited_ms").value(counters.waited_ns / 1'000'000);
  json.key("went_on").value(counters.went_on);
  json.key("jobserver_bytes").value(counters.bytes_read);
  json.key("without_permit").value(counters.without);
  json.key("peak_in_flight").value(counters.most_in_flight);
  if (counters.least_headroom_bytes != ~std::uint64_t{0})
    json.key("least_headroom_bytes").value(counters.least_headroom_bytes);
  write_scope(json, report);
  json.key("sizes").open_array();
  for (std::uint32_t i = 0; i < report.class_count; ++i)
    json.open_object()
        .key("class")
        .value(report.classes[i].name)
        .key("peak_bytes")
        .value(report.classes[i].peak_bytes)
        .key("finished")
        .value(report.classes[i].finished)
        .close_object();
  json.close_array();
  json.close_object();
}

void write_calls(JsonWriter& json) {
  json.key("calls").open_object();
  for (std::size_t i = 0; i < kEntryCount; ++i) {
    const std::uint64_t calls = __atomic_load_n(&gp_calls[i], __ATOMIC_RELAXED);
    if (calls != 0) json.key(entry_name(static_cast<EntryId>(i))).value(calls);
  }
  json.close_object();
}

void write_rate(JsonWriter& json, std::string_view name, std::uint64_t part, std::uint64_t whole) {
  json.key(name).open_object().key("part").value(part).key("of").value(whole).close_object();
}

/// Writes the shares of captures, instantiates, updates and allocations that the library served, and of launches whose
/// binding needed no new exec and no update.
void write_rates(JsonWriter& json) {
  const GraphTotals totals = graph_totals();
  const PoolCounters memory = blocks().counted();
  std::uint64_t new_execs = 0;
  for (const Way way : {Way::kNewExec, Way::kOneShot, Way::kUpdate}) new_execs += g_launches_by_way.count(way);
  json.key("rates").open_object();
  write_rate(json, "captures_served", totals.withheld_captures,
             totals.captures + totals.withheld_captures + totals.refused);
  write_rate(json, "instantiates_served", totals.instantiates_avoided, totals.instantiates);
  write_rate(json, "updates_served", totals.updates_avoided, totals.updates);
  write_rate(json, "launches_by_an_exec_there_was", totals.launches - std::min(totals.launches, new_execs),
             totals.launches);
  write_rate(json, "allocations_served", memory.reused, memory.reused + memory.fresh);
  json.close_object();
}

void take_sample(const std::vector<RecordingReport>& recordings) REQUIRES(g_writing) {
  if (g_samples == nullptr) g_samples = new Samples();
  const GraphTotals totals = graph_totals();
  std::uint64_t kept_bytes = 0;
  for (const PoolMemory& memory : device_memory().memory()) kept_bytes += memory.kept_bytes;
  Sample sample{elapsed_ms(),
                totals.captures + totals.withheld_captures + totals.refused,
                totals.withheld_captures,
                totals.launches,
                kept_bytes,
                {}};
  for (std::size_t i = 0; i < kWays; ++i) sample.by_way[i] = g_launches_by_way.count(static_cast<Way>(i));
  std::vector<GraphLaunches> graphs;
  for (const RecordingReport& recording : recordings) graphs.push_back({recording.number, recording.launches});
  g_samples->take(sample, graphs);
}

/// A name for each graph that has kernels: its first and its last kernel.
TraceGraphs names_of_graphs(const std::vector<RecordingReport>& recordings) {
  TraceGraphs names;
  for (const RecordingReport& recording : recordings) {
    if (recording.first_kernel == nullptr) continue;
    std::string& name = names[recording.number];
    name = recording.first_kernel;
    if (recording.last_kernel != recording.first_kernel) name.append(" .. ").append(recording.last_kernel);
  }
  return names;
}

/// The next trace is not written before this time, unless the process ends.
std::uint64_t g_trace_due_ms GUARDED_BY(g_writing) = 0;

/// Writes the trace if it is due: while the program runs, writing traces takes at most a twentieth of the time.
void write_trace_if_due(bool ended, const std::vector<RecordingReport>& recordings) REQUIRES(g_writing) {
  constexpr std::uint64_t kPart = 20;
  const std::uint64_t began_ms = elapsed_ms();
  if (!trace_on(TraceUse::kFile) || (!ended && began_ms < g_trace_due_ms)) return;
  write_trace(names_of_graphs(recordings));
  const std::uint64_t now_ms = elapsed_ms();
  g_trace_due_ms = now_ms + kPart * (now_ms - began_ms);
}

void write_trace_facts(JsonWriter& json) {
  const TraceWritten* const trace = trace_written();
  if (trace == nullptr || trace->name.empty()) return;
  json.key("trace").open_object().key("file").value(trace->name);
  json.key("events").value(trace->events).key("dropped").value(trace->lost).close_object();
}

/// The report as JSON text. `ended`: the process is about to end.
std::string report_text(bool ended, const std::vector<RecordingReport>& recordings) REQUIRES(g_writing) {
  JsonWriter json;
  json.open_object();
  write_about(json, ended);
  write_waits(json);
  std::uint64_t bytes_staged = 0, slots = 0, slot_bytes = 0;
  for (const RecordingReport& recording : recordings) {
    bytes_staged += recording.statistics.staged.bytes;
    slots += recording.slots;
    slot_bytes += recording.slot_bytes;
  }
  write_rates(json);
  json.key("samples");
  g_samples->write(json);
  json.key("bytes_staged").value(bytes_staged);
  json.key("slots").value(slots);
  json.key("slot_bytes").value(slot_bytes);
  write_pool(json);
  write_memory(json);
  write_graphs(json, recordings);
  write_check(json);
  write_compile(json);
  write_trace_facts(json);
  write_calls(json);
  json.close_object();
  return json.text() + "\n";
}

constinit std::atomic<bool> g_unwritable_told{false};  ///< it has been said that no report can be written

void write_report(bool ended) REQUIRES(g_writing) {
  const InsideScope inside;
  if (ended) {
    const GraphTotals totals = graph_totals();
    const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
    log_info(
        "captures %llu of %llu served, instantiates %llu of %llu; %llu launches; about %.1f ms of host time saved, an "
        "estimate",
        number(totals.withheld_captures), number(totals.captures + totals.withheld_captures + totals.refused),
        number(totals.instantiates_avoided), number(totals.instantiates), number(totals.launches),
        totals.saved_ns / 1e6);
  }
  if (g_file->empty() && !trace_on(TraceUse::kFile)) return;
  const std::vector<RecordingReport> recordings = recording_reports();
  write_trace_if_due(ended, recordings);
  if (g_file->empty()) return;
  if (g_name == nullptr) g_name = new std::string(claim_report_name(*g_file));
  take_sample(recordings);
  if (!write_report_file(*g_name, report_text(ended, recordings)) && !g_unwritable_told.exchange(true))
    log_warn("report file %s: %s", g_name->c_str(), std::strerror(errno));
}

constinit bool g_ended GUARDED_BY(g_writing) = false;  ///< the last report has been written
/// This is a forked child that has begun no reports: what its parent did is in its parent's.
constinit bool g_only_forked GUARDED_BY(g_writing) = false;

void after_fork_in_child() noexcept {
  g_writing.make_anew();
  const LockGuard guard(g_writing);
  g_only_forked = true;
  g_name = nullptr;  // the parent's; it is not freed in a child
}

/// Writes a report unless the last one has been written. Returns false if it had been, or if this process passes all
/// on.
bool write_next_report(bool ended) noexcept {
  // A forked child (its parent writes), or the library is off.
  if (g_mode.load(std::memory_order_acquire) == Mode::kPassThrough) return false;
  const GuestScope guest;
  const NoFileSignals no_signals;
  const LockGuard guard(g_writing);
  if (g_only_forked) return false;
  const bool more = !std::exchange(g_ended, g_ended || ended);
  try {
    if (more && g_file != nullptr) write_report(ended);
  } catch (const std::bad_alloc&) {
    log_warn("no report: out of host memory");
  }
  return more;
}

std::chrono::nanoseconds g_every{0};  ///< set once, before the thread that reads it

void sleep_for(std::chrono::nanoseconds time) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  const timespec pause{seconds.count(), (time - seconds).count()};
  nanosleep(&pause, nullptr);
}

/// Writes the first report soon, so that a program that is killed early has left one; then one at each interval.
void* write_while_it_runs(void*) {
  constexpr std::chrono::nanoseconds kFirst = std::chrono::milliseconds(100);
  sleep_for(std::min(kFirst, g_every));
  while (write_next_report(false)) sleep_for(g_every);
  return nullptr;
}

/// Starts the thread that writes reports while the program runs. It blocks all signals, because the program's signals
/// are for the program's threads.
void start_writing() noexcept {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int error = pthread_create(&thread, nullptr, write_while_it_runs, nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    log_warn("report.every: no thread (%s); the report is written at the end", std::strerror(error));
  } else {
    pthread_detach(thread);
  }
}

/// Registers the report. Returns whether the thread that writes it has to be started.
bool begin_reports(std::string_view pattern, std::chrono::nanoseconds every) noexcept EXCLUDES(g_writing) {
  const LockGuard guard(g_writing);
  g_only_forked = false;
  if (g_file == nullptr) {
    try {
      g_file = new std::string(pattern);
      begin_elapsed();
      std::atexit([] { write_next_report(true); });
    } catch (const std::bad_alloc&) {
    }
  }
  const bool writes = !pattern.empty() || trace_on(TraceUse::kFile);
  const bool starts = g_file != nullptr && writes && every.count() > 0 && g_every.count() == 0;
  if (starts) g_every = every;
  return starts;
}

}  // namespace

void write_reports(std::string_view pattern, std::chrono::nanoseconds every) noexcept {
  // Before the lock: a child that is forked while a report is being written must not find it locked.
  static constinit pthread_once_t watching_forks = PTHREAD_ONCE_INIT;
  pthread_once(&watching_forks, [] { pthread_atfork(nullptr, nullptr, after_fork_in_child); });
  const bool starts = begin_reports(pattern, every);
  if (starts) start_writing();
  if (!pattern.empty())
    g_stale_found.store([]() noexcept { static_cast<void>(write_next_report(false)); }, std::memory_order_release);
  static constinit std::atomic<bool> announced{false};
  if (pattern.empty() || announced.exchange(true)) return;
  try {
    warn_of_unknown_marks("report.file", pattern);
    const std::string name = expand_report_name(pattern);
    if (const char* reason = why_unwritable(name)) {
      g_unwritable_told.store(true);
      log_warn("no report can be written to %s: %s", name.c_str(), reason);
    } else {
      log_info("version %s is active; its report will be in %s%s", kVersion, name.c_str(),
               every.count() > 0 ? "" : " (when the process ends; GRAPHPOOL_REPORT_EVERY=2s: also before)");
    }
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace graphpool
