#include "shim/report/trace_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <set>
#include <vector>

#include "shim/base/log.h"
#include "shim/base/small_file.h"
#include "shim/report/json.h"
#include "shim/report/report_file.h"
#include "shim/report/version.h"

namespace graphpool {
namespace {

// Made once, never destroyed.
std::string* g_pattern = nullptr;
TraceWritten* g_written = nullptr;

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

struct KindWords {
  const char* name;
  const char* detail;  ///< what TraceEvent::detail is, as a key
  const char* value;   ///< what TraceEvent::value is; null: nothing
};
constexpr std::array<KindWords, kTraceKinds> kWords = {{{"capture", "result", "operations"},
                                                        {"instantiate", "way", nullptr},
                                                        {"update", "way", nullptr},
                                                        {"launch", "way", nullptr},
                                                        {"copies of slots", "what", "bytes"},
                                                        {"make real", "why", nullptr},
                                                        {"wait", "for", nullptr},
                                                        {"compile", "permit", nullptr},
                                                        {"kept memory", "what", "bytes"},
                                                        {"give back", "why", "bytes"}}};

/// An event, or one end of a capture. Captures may overlap without one inside the other, so both ends are told.
struct Moment {
  std::uint64_t ns;
  const TraceEvent* event;
  char phase;  ///< as the format has it
};

char phase_of(TraceKind kind) noexcept {
  return kind == TraceKind::kKept ? 'C' : kind == TraceKind::kGivenBack ? 'i' : 'X';
}

/// All moments in order of time. Of two events that begin together the one that ends later comes first.
std::vector<Moment> in_order(const std::vector<TraceEvent>& events) {
  std::vector<Moment> moments;
  moments.reserve(events.size());
  for (const TraceEvent& event : events) {
    if (event.kind == TraceKind::kCapture) {
      moments.push_back({event.begin, &event, 'b'});
      moments.push_back({event.end, &event, 'e'});
    } else {
      moments.push_back({event.begin, &event, phase_of(event.kind)});
    }
  }
  // Moments without an end of their own come behind the events that begin with them.
  const auto end_of = [](const Moment& moment) { return moment.phase == 'X' ? moment.event->end : 0; };
  std::stable_sort(moments.begin(), moments.end(), [end_of](const Moment& a, const Moment& b) {
    return a.ns != b.ns ? a.ns < b.ns : end_of(a) > end_of(b);
  });
  return moments;
}

/// Writes the file's text piece by piece.
class Writer {
 public:
  Writer(const TraceGraphs& graphs, WritePiece write)
      : graphs_(graphs), write_(write), process_(std::to_string(getpid())) {}

  void name_process() { add_name("process_name", process_, "graphpool " + process_); }
  void name_thread(std::uint32_t id) {
    std::array<char, 64> name{};
    const std::string number = std::to_string(id);
    const ssize_t length = read_small_file(("/proc/self/task/" + number + "/comm").c_str(), name.data(), name.size());
    const std::string_view text(name.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    add_name("thread_name", number, text.empty() ? "ended" : std::string(text.substr(0, text.find('\n'))));
  }

  /// `id`: tells captures apart.
  void add(const Moment& moment, std::size_t id) {
    const TraceEvent& event = *moment.event;
    const KindWords& words = kWords[static_cast<std::size_t>(event.kind)];
    std::string name = words.name;
    if (event.kind == TraceKind::kKept) name += ", device " + std::to_string(event.graph);
    open(name, moment.phase, std::to_string(event.thread));
    add_time("ts", moment.ns);
    if (moment.phase == 'X') add_time("dur", event.end - event.begin);
    if (moment.phase == 'i') text_ += R"(,"s":"t")";
    if (event.kind == TraceKind::kCapture) text_.append(R"(,"id":)").append(std::to_string(id));
    if (moment.phase != 'e') add_arguments(event, words);
    text_ += '}';
    if (text_.size() >= kPieceBytes) write();
  }

  bool finish(std::size_t events, std::uint64_t lost) {
    JsonWriter json;
    json.open_object().key("version").value(kVersion).key("clock").value("CLOCK_MONOTONIC");
    json.key("events").value(std::uint64_t{events}).key("dropped").value(lost).close_object();
    text_.append(first_ ? kHead : "").append("\n],\"otherData\":").append(json.text()).append("}\n");
    write();
    return good_;
  }

 private:
  static constexpr const char* kHead = R"({"displayTimeUnit":"ns","traceEvents":[)";

  void open(std::string_view name, char phase, std::string_view thread) {
    text_.append(first_ ? kHead : ",").append("\n{\"name\":\"").append(name);
    text_.append(R"(","cat":"graphpool","ph":")").append(1, phase).append(R"(","pid":)").append(process_);
    text_.append(R"(,"tid":)").append(thread);
    first_ = false;
  }

  /// Microseconds with three decimals.
  void add_time(std::string_view key, std::uint64_t ns) {
    const std::string rest = std::to_string(1000 + ns % 1000);
    text_.append(",\"").append(key).append("\":").append(std::to_string(ns / 1000)).append(".").append(rest, 1, 3);
  }

  void add_name(std::string_view what, std::string_view thread, std::string_view name) {
    JsonWriter json;
    json.open_object().key("name").value(name).close_object();
    open(what, 'M', thread);
    text_.append(R"(,"ts":0,"args":)").append(json.text()).append("}");
  }

  void add_arguments(const TraceEvent& event, const KindWords& words) {
    JsonWriter json;
    json.open_object();
    if (event.detail != nullptr) json.key(words.detail).value(event.detail);
    if (event.kind == TraceKind::kGivenBack) {
      json.key("device").value(event.graph);
    } else if (event.kind != TraceKind::kKept && event.graph != 0) {
      json.key("graph").value(event.graph);
      if (const auto found = graphs_.find(event.graph); found != graphs_.end())
        json.key("kernels").value(found->second);
    }
    if (words.value != nullptr) json.key(words.value).value(event.value);
    json.close_object();
    text_.append(R"(,"args":)").append(json.text());
  }

  void write() {
    good_ = good_ && write_(text_);
    text_.clear();
  }

  const TraceGraphs& graphs_;
  const WritePiece write_;
  const std::string process_;
  std::string text_;
  bool first_ = true, good_ = true;
};

}  // namespace

bool write_trace_text(const TraceSeen& seen, const TraceGraphs& graphs, WritePiece write) {
  Writer writer(graphs, write);
  writer.name_process();
  std::set<std::uint32_t> threads;
  for (const TraceEvent& event : seen.events)
    if (threads.insert(event.thread).second) writer.name_thread(event.thread);
  for (const Moment& moment : in_order(seen.events))
    writer.add(moment, static_cast<std::size_t>(moment.event - seen.events.data()));
  return writer.finish(seen.events.size(), seen.lost);
}

void open_trace(std::string_view pattern) noexcept {
  if (pattern.empty() || g_pattern != nullptr) return;
  try {
    g_pattern = new std::string(pattern);
    g_written = new TraceWritten;
    warn_of_unknown_marks("report.trace", pattern);
    const std::string name = expand_report_name(pattern);
    if (const char* reason = why_unwritable(name)) log_warn("no trace can be written to %s: %s", name.c_str(), reason);
    begin_trace(TraceUse::kFile);
  } catch (const std::bad_alloc&) {
  }
}

void write_trace(const TraceGraphs& graphs) {
  if (!trace_on(TraceUse::kFile)) return;
  if (g_written->name.empty()) g_written->name = claim_new_name(*g_pattern);
  const std::string& name = g_written->name;
  const TraceSeen seen = trace_seen();
  g_written->events = seen.events.size();
  g_written->lost = seen.lost;
  if (!write_report_pieces(name, [&](WritePiece write) { return write_trace_text(seen, graphs, write); }))
    log_warn("trace file %s: %s", name.c_str(), std::strerror(errno));
}

const TraceWritten* trace_written() noexcept { return g_written; }

}  // namespace graphpool
