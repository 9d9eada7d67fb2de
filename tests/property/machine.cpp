#include "machine.h"

#include <algorithm>
#include <iterator>

namespace property {
namespace {

constexpr std::size_t kMostNodes = 60;

bool overlap(const Access& a, const Access& b) {
  return a.buffer == b.buffer && a.generation == b.generation && a.first < b.first + b.parts &&
         b.first < a.first + a.parts;
}

}  // namespace

bool Features::set(const std::string& name) {
  const std::pair<const char*, bool*> all[] = {{"exec_serial", &exec_serial},
                                               {"params_at_node", &params_at_node},
                                               {"keeps_arguments", &keeps_arguments},
                                               {"free_waits", &free_waits},
                                               {"copies_at_patch", &copies_at_patch},
                                               {"handles_return", &handles_return},
                                               {"stuck", &stuck},
                                               {"swallowed", &swallowed},
                                               {"whole_buffers", &whole_buffers},
                                               {"no_mem_info", &no_mem_info},
                                               {"inject", &inject},
                                               {"armed", &armed},
                                               {"inner_frees", &inner_frees},
                                               {"exports", &exports},
                                               {"gone", &gone},
                                               {"lost_captures", &lost_captures},
                                               {"mixed_captures", &mixed_captures},
                                               {"kept_nodes", &kept_nodes},
                                               {"own_destroys", &own_destroys},
                                               {"captured_stay", &captured_stay},
                                               {"orphans", &orphans},
                                               {"legacy_records", &legacy_records},
                                               {"null_joins", &null_joins},
                                               {"own_captures", &own_captures},
                                               {"roots_at_once", &roots_at_once},
                                               {"home_instantiates", &home_instantiates},
                                               {"flown_destroys", &flown_destroys},
                                               {"no_legacy", &no_legacy},
                                               {"captures_ended", &captures_ended},
                                               {"host_fills", &host_fills},
                                               {"rows_at_home", &rows_at_home},
                                               {"device_rows", &device_rows},
                                               {"waits_once", &waits_once},
                                               {"null_order_alone", &null_order_alone},
                                               {"left_events", &left_events},
                                               {"forks_one_way", &forks_one_way},
                                               {"frees_captured", &frees_captured},
                                               {"weighed", &weighed}};
  for (const auto& [known, field] : all)
    if (name == known) return *field = true;
  return false;
}

Machine::Machine(const Kernels& kernels, const Features& features, Threads& threads, std::string* transcript)
    : kernels_(kernels), features_(features), threads_(threads), transcript_(*transcript) {
  const auto fixed = [&](int device) {
    Stream stream;
    stream.live = true;
    stream.device = device;
    stream.agent = add_agent(device);
    return stream;
  };
  for (int device = 0; device < devices(); ++device) {
    null_streams_.push_back(fixed(device));
    for (auto& streams : thread_streams_) streams.push_back(fixed(device));
  }
}

Machine::~Machine() = default;

// --- ordering ---

std::size_t Machine::add_agent(int device) {
  agents_.push_back({device});
  clocks_.emplace_back();
  return agents_.size() - 1;
}

void Machine::joined(Clock* clock, const Clock& other) const {
  if (clock->size() < other.size()) clock->resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) (*clock)[i] = std::max((*clock)[i], other[i]);
}

bool Machine::covers(const Clock& clock, const Stamp& stamp) {
  return stamp.agent < clock.size() && clock[stamp.agent] >= stamp.number;
}

/// What has certainly happened before the next piece of work of the stream starts.
Clock Machine::clock_of_next(Stream& stream) const {
  Clock clock = clocks_[stream.agent];
  joined(&clock, host_);
  const Stream& null_stream = null_streams_[static_cast<std::size_t>(stream.device)];
  if (&stream == &null_stream) {
    for (const Stream& other : streams_)
      if (other.live && other.blocking && other.device == stream.device) joined(&clock, clocks_[other.agent]);
    for (const auto& streams : thread_streams_)
      joined(&clock, clocks_[streams[static_cast<std::size_t>(stream.device)].agent]);
  } else if (stream.blocking) {
    joined(&clock, clocks_[null_stream.agent]);
  }
  return clock;
}

Stamp Machine::enqueue(Stream& stream) {
  Clock clock = clock_of_next(stream);
  if (clock.size() <= stream.agent) clock.resize(stream.agent + 1);
  const std::uint32_t number = ++clock[stream.agent];
  clock_of(stream) = std::move(clock);
  return {stream.agent, number};
}

bool Machine::ready(const std::vector<Access>& accesses, const Clock& clock, Obstacle* obstacle) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> written;  // by this very work, before
  const auto race = [&](const Stamp& stamp) {
    if (stamp.number == 0 || covers(clock, stamp)) return false;
    *obstacle = {false, true, 0, 0, stamp.agent};
    return true;
  };
  for (const Access& access : accesses) {
    const Buffer& target = buffer(access.buffer);
    if (!target.live || target.generation != access.generation || access.first + access.parts > kParts) return false;
    for (std::int64_t i = access.first; i < access.first + access.parts; ++i) {
      const Buffer::Part& part = target.parts[i];
      if (race(part.write)) return false;
      if (access.write)
        for (const Stamp& read : part.reads)
          if (race(read)) return false;
      const std::pair<std::int64_t, std::int64_t> name{access.buffer, i};
      if (!access.whole && !part.written && std::find(written.begin(), written.end(), name) == written.end()) {
        *obstacle = {true, false, access.buffer, i, 0};
        return false;
      }
      if (access.whole) written.push_back(name);
    }
  }
  return true;
}

void Machine::apply(const Accesses& accesses, const Stamp& stamp) {
  for (const Access& access : accesses) {
    Buffer& target = buffers_[static_cast<std::size_t>(access.buffer)];
    // A kernel over no elements touches nothing, but its arguments must be memory when it runs.
    if (access.parts == 0) target.parts[access.first].reads.push_back(stamp);
    for (std::int64_t i = access.first; i < access.first + access.parts; ++i) {
      Buffer::Part& part = target.parts[i];
      if (!access.write) {
        part.reads.push_back(stamp);
        continue;
      }
      part.write = stamp;
      part.reads.clear();
      part.written = part.written || access.whole;
    }
  }
}

bool Machine::host_covers_device(int device) const {
  for (std::size_t agent = 0; agent < agents_.size(); ++agent) {
    const Clock& clock = clocks_[agent];
    if (agents_[agent].device == device && agent < clock.size() && !covers(host_, {agent, clock[agent]})) return false;
  }
  return true;
}

bool Machine::host_covers(const Buffer& buffer) const {
  for (const Buffer::Part& part : buffer.parts) {
    if (part.write.number != 0 && !covers(host_, part.write)) return false;
    for (const Stamp& read : part.reads)
      if (!covers(host_, read)) return false;
  }
  return true;
}

int Machine::stream_of_agent(std::size_t agent) const {
  for (int i = 0; i < kStreams; ++i)
    if (stream_slot(i).live && stream_slot(i).agent == agent) return i;
  return -1;
}

// --- what operations touch ---

Stream& Machine::stream(std::int64_t number, int thread) {
  const auto device = static_cast<std::size_t>(this->thread(thread).device);
  if (number == kNull || number == kLegacy) return null_streams_[device];
  if (number == kPerThread) return thread_streams_[static_cast<std::size_t>(thread)][device];
  return streams_[static_cast<std::size_t>(number)];
}

std::size_t Machine::count_of(const Work& work) const {
  return static_cast<std::size_t>(work.parts * buffer(work.dst).part_ints * work.quarter / 4);
}

int* Machine::address(std::int64_t slot, std::int64_t first) const {
  return buffer(slot).base + first * buffer(slot).part_ints;
}

std::vector<Access> Machine::accesses(const Work& work) const {
  Accesses all;
  if (work.bad() || work.what == Work::Nothing) return all;
  const Buffer& dst = buffer(work.dst);
  const auto ints = static_cast<std::int64_t>(count_of(work));
  const bool pitched = work.what == Work::Copy2D || work.what == Work::Fill2D;
  if (work.what == Work::Join || work.what == Work::Peer || work.what == Work::Copy || work.what == Work::Copy2D) {
    const Buffer& src = buffer(work.src);
    const std::int64_t read = pitched && ints > 0 ? work.parts * dst.part_ints : ints;
    const std::int64_t parts = src.part_ints == 0 ? 0 : (read + src.part_ints - 1) / src.part_ints;
    all.push_back({work.src, src.generation, work.src_first, parts, false, false});
  }
  if (work.what == Work::Host) {
    all.push_back({work.dst, dst.generation, work.first, 1, true, false});
    return all;
  }
  const bool overwrites = work.what == Work::Set || !work.kernel();
  all.push_back(
      {work.dst, dst.generation, work.first, ints == 0 ? 0 : work.parts, true, overwrites && work.quarter == 4});
  if (overwrites && work.quarter != 4 && ints > 0) all.back().whole = false;
  return all;
}

std::vector<Access> Machine::graph_accesses(const std::vector<Node>& nodes) const {
  Accesses all;
  for (const Node& node : nodes) {
    if (!node.enabled) continue;
    for (Access access : node.accesses) {
      if (features_.whole_buffers) {
        all.push_back({access.buffer, access.generation, 0, kParts, true, false});
        continue;
      }
      all.push_back(access);
    }
  }
  return all;
}

/// Whether the operation may be asked of a device: its memory is there and of the right kind. Not: ordering.
bool Machine::fits(const Work& work, int device) const {
  if (work.what < 0 || work.what >= Work::kCount || work.quarter < 0 || work.quarter > 4) return false;
  if (work.dst < 0 || work.dst >= kBuffers || work.src < 0 || work.src >= kBuffers) return false;
  if (work.module() >= kModules || (work.module() >= 0 && (work.what >= std::ssize(kOfModules) || work.by_stub())))
    return false;
  if (work.module() >= 0 && (!module(work.module()).live || module(work.module()).device != device)) return false;
  if (work.parts < 1 || work.first < 0 || work.first + work.parts > kParts || work.src_first < 0) return false;
  if (work.what == Work::Nothing) return true;
  const auto good = [&](const Buffer& buffer) {
    if (!buffer.live) return false;
    const bool copies = work.what == Work::Copy || work.what == Work::Copy2D;
    switch (buffer.memory) {
      case Memory::Pinned:
        return true;
      case Memory::Pageable:
        return copies || work.what == Work::Host;
      case Memory::Managed:
        return work.what != Work::Host;
      case Memory::Async:
        return work.what != Work::Host && buffer.device == device;  // pools say who may reach their memory
      default:
        return work.what != Work::Host && (buffer.device == device || copies);
    }
  };
  const Buffer& dst = buffer(work.dst);
  if (!good(dst)) return false;
  if (work.bad() && dst.memory == Memory::Pageable) return false;       // nobody knows its end
  if (work.bad() && work.quarter == 0 && !work.kernel()) return false;  // nothing is wrong with nothing
  if (work.what == Work::Host) return dst.on_host();
  if (work.what == Work::Inner && features_.whole_buffers) return false;
  if (work.what != Work::Join && work.what != Work::Peer && work.what != Work::Copy && work.what != Work::Copy2D)
    return true;
  const Buffer& src = buffer(work.src);
  if (!good(src)) return false;
  // Of memory that did not leave the process a rule may say that all who use it are seen.
  if (work.what == Work::Peer && (src.on_host() || (features_.whole_buffers && !src.exported))) return false;
  if (dst.on_host() && src.on_host() && (dst.memory == Memory::Pageable) != (src.memory == Memory::Pageable))
    return false;
  const std::int64_t ints = work.parts * dst.part_ints;
  if (ints > (kParts - work.src_first) * src.part_ints) return false;
  // A part must not be its own source.
  const std::int64_t src_parts = (ints + src.part_ints - 1) / src.part_ints;
  return work.dst != work.src || work.first + work.parts <= work.src_first || work.src_first + src_parts <= work.first;
}

bool Machine::live(const Accesses& accesses) const {
  return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return buffer(access.buffer).live && buffer(access.buffer).generation == access.generation;
  });
}

/// Whether each fill and copy that an exec has names memory of a certain device: where that was freed, the address may
/// be another device's, and what the exec takes instead depends on it.
bool Machine::devices_certain(const std::vector<Node>& nodes) const {
  return devices() == 1 || std::all_of(nodes.begin(), nodes.end(), [&](const Node& node) {
           return !node.work || node.work->kernel() || live(node.accesses);
         });
}

/// Whether the code is there that the nodes run.
bool Machine::modules_live(const std::vector<Node>& nodes) const {
  return std::all_of(nodes.begin(), nodes.end(), [&](const Node& node) {
    const auto is_its = [&](const Module& each) { return each.live && each.generation == node.module; };
    return (node.module == 0 || std::any_of(modules_.begin(), modules_.end(), is_its)) && modules_live(node.inner);
  });
}

/// Whether the step looks at a graph or exec of which code is gone: it can only be destroyed.
bool Machine::names_dead_module(const Step& step) const {
  const auto& n = step.number;
  const auto dead = [&](const auto& array, std::int64_t slot) {
    return slot >= 0 && static_cast<std::size_t>(slot) < array.size() && array[static_cast<std::size_t>(slot)].live &&
           !modules_live(array[static_cast<std::size_t>(slot)].nodes);
  };
  const auto dead_exec = [&](std::int64_t slot) {
    if (dead(execs_, slot) || slot < 0 || slot >= kExecs) return dead(execs_, slot);
    const Exec& of = exec(static_cast<int>(slot));
    return of.live && of.graph >= 0 && graph(of.graph).generation == of.graph_generation && dead(graphs_, of.graph);
  };
  switch (step.kind) {
    case Kind::instantiate:
    case Kind::clone:
      return dead(graphs_, n[1]);
    case Kind::launch:
    case Kind::upload:
    case Kind::exec_edit:
    case Kind::exec_set:
    case Kind::exec_enable:
      return dead_exec(n[0]);
    case Kind::exec_update:
      return dead_exec(n[0]) || dead(graphs_, n[1]);
    case Kind::exec_child:
    case Kind::add_child:
      return (step.kind == Kind::exec_child ? dead_exec(n[0]) : dead(graphs_, n[0])) || dead(graphs_, n[2]);
    case Kind::add_node:
    case Kind::child_nodes:
    case Kind::child_set:
    case Kind::add_edge:
    case Kind::remove_edge:
    case Kind::node_destroy:
    case Kind::list_nodes:
    case Kind::node_values:
    case Kind::node_set:
    case Kind::node_edit:
      return dead(graphs_, n[0]);
    default:
      return false;
  }
}

/// Whether nodes that touch the same parts depend on each other.
bool Machine::nodes_ordered(const std::vector<Node>& nodes) const {
  std::vector<std::uint64_t> before(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const int after : nodes[i].after)
      before[i] |= before[static_cast<std::size_t>(after)] | std::uint64_t{1} << after;
    for (std::size_t k = 0; k < i; ++k) {
      if ((before[i] >> k & 1) != 0) continue;
      for (const Access& a : nodes[i].accesses)
        for (const Access& b : nodes[k].accesses)
          if ((a.write || b.write) && overlap(a, b)) return false;
    }
  }
  return true;
}

bool Machine::in_flight(const Exec& exec) const {
  return std::any_of(exec.launches.begin(), exec.launches.end(),
                     [&](const Stamp& stamp) { return !covers(host_, stamp); });
}

/// What setting the parameters of these nodes in an exec may copy at once.
Machine::Accesses Machine::host_copies(const std::vector<Node>& nodes) const {
  Accesses all;
  if (!features_.copies_at_patch) return all;
  for (const Node& node : nodes) {
    if (!node.work || (node.work->what != Work::Copy && node.work->what != Work::Copy2D)) continue;
    if (!buffer(node.work->dst).on_host() || !buffer(node.work->src).on_host()) continue;
    for (const Access& access : accesses(*node.work)) all.push_back(access);
  }
  return all;
}

bool Machine::may_copy_now(const Accesses& copies) const {
  Obstacle obstacle;
  return ready(copies, host_, &obstacle);
}

/// Nobody knows what is there now.
void Machine::copied_or_not(const Accesses& copies) {
  for (const Access& access : copies)
    for (std::int64_t i = access.first; access.write && i < access.first + access.parts; ++i)
      buffers_[static_cast<std::size_t>(access.buffer)].parts[i].written = false;
}

/// Whether the program knows the node.
bool Machine::node_in(const std::vector<Node>& nodes, std::int64_t node) {
  return node >= 0 && static_cast<std::size_t>(node) < nodes.size() &&
         nodes[static_cast<std::size_t>(node)].handle != nullptr;
}

/// What a graph is without the node. Its place stays.
void Machine::take_out(std::vector<Node>* nodes, std::int64_t node) {
  (*nodes)[static_cast<std::size_t>(node)] = Node{};
  for (Node& other : *nodes) std::erase(other.after, static_cast<int>(node));
}

bool Machine::exec_node_known(const Exec& exec, std::int64_t node) const {
  if (!exec.live || !exec.known || exec.graph < 0) return false;
  const Graph& of = graph(exec.graph);
  return of.live && of.generation == exec.graph_generation && node_in(of.nodes, node) &&
         static_cast<std::size_t>(node) < exec.nodes.size();
}

/// How many nodes, those of child graphs among them, come behind no other.
int Machine::roots(const std::vector<Node>& nodes) {
  int count = 0;
  for (const Node& node : nodes)
    if (node.after.empty() && (node.work || !node.inner.empty())) count += node.work ? 1 : roots(node.inner);
  return count;
}

bool Machine::launchable(const Exec& exec, Stream& on, Obstacle* obstacle) {
  *obstacle = {};
  if (!exec.live || !exec.known || !on.live || on.device != exec.device) return false;
  Clock clock = features_.roots_at_once && roots(exec.nodes) > 1 ? host_ : clock_of_next(on);
  if (features_.exec_serial && !on.capture) joined(&clock, exec.last_launch);
  return ready(graph_accesses(exec.nodes), clock, obstacle);
}

/// Whether the memory may go by hipFree, or in the stream's order: nothing that uses it is still to run then.
bool Machine::free_is_ordered(const Buffer& target, Stream& on, bool in_order) const {
  if (target.memory != Memory::Malloc && target.memory != Memory::ExtMalloc && target.memory != Memory::Async)
    return host_covers(target);
  // hipFree waits for the streams of the memory's device (from HIP 7 on not for a pool's memory); hipFreeAsync
  // comes after what its stream comes after.
  if (!in_order && target.memory == Memory::Async) return host_covers(target);
  if (in_order && on.capture) return false;
  const Clock clock = clock_of_next(on);
  const auto ordered = [&](const Stamp& stamp) {
    if (stamp.number == 0) return true;
    return in_order ? covers(clock, stamp) : agents_[stamp.agent].device == target.device || covers(host_, stamp);
  };
  return std::all_of(std::begin(target.parts), std::end(target.parts), [&](const Buffer::Part& part) {
    return ordered(part.write) && std::all_of(part.reads.begin(), part.reads.end(), ordered);
  });
}

// --- which steps are well-defined here ---

/// Whether the memory is named by a graph or by a capture.
bool Machine::captured(std::int64_t number) const {
  const auto named = [&](const std::vector<Node>& nodes) {
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
      return std::any_of(node.accesses.begin(), node.accesses.end(), [&](const Access& access) {
        return access.buffer == number && access.generation == buffer(number).generation;
      });
    });
  };
  const auto open = [&](const Stream& each) { return each.capture && named(each.capture->nodes); };
  return std::any_of(graphs_.begin(), graphs_.end(), [&](const Graph& of) { return of.live && named(of.nodes); }) ||
         std::any_of(streams_.begin(), streams_.end(), open) ||
         std::any_of(thread_streams_.begin(), thread_streams_.end(),
                     [&](const auto& streams) { return std::any_of(streams.begin(), streams.end(), open); });
}

/// Whether the step makes a node of a graph fill pinned memory.
bool Machine::fills_host(const Step& step) {
  const Work work = step.work();
  const bool fills = work.what >= Work::Fill8 && work.what <= Work::Fill2D;
  if (!fills || work.dst < 0 || work.dst >= kBuffers || buffer(work.dst).memory != Memory::Pinned) return false;
  const std::int64_t on = step.number[0];
  return step.kind != Kind::work || (on >= 0 && on <= kLegacy && stream(on, step.thread).capture);
}

/// Whether the step makes a node of a graph a 2D copy of nothing, or of memory of another device than the node's.
bool Machine::copies_rows_away(const Step& step) {
  const Work work = step.work();
  if (work.what != Work::Copy2D) return false;
  const std::int64_t on = step.number[0];
  int device = thread(step.thread).device;
  if (step.kind == Kind::work) {
    if (on < 0 || on > kLegacy || !stream(on, step.thread).capture) return false;
    device = stream(on, step.thread).device;
  }
  const auto away = [&](std::int64_t slot) {
    return slot >= 0 && slot < kBuffers && !buffer(slot).on_host() && buffer(slot).device != device;
  };
  return work.quarter == 0 || away(work.dst) || away(work.src);
}

/// Whether the step makes a node of a graph a 2D copy of memory that is managed or the host's.
bool Machine::copies_other_rows(const Step& step) {
  const Work work = step.work();
  if (work.what != Work::Copy2D) return false;
  const std::int64_t on = step.number[0];
  if (step.kind == Kind::work && (on < 0 || on > kLegacy || !stream(on, step.thread).capture)) return false;
  const auto other = [&](std::int64_t slot) {
    return slot >= 0 && slot < kBuffers && (buffer(slot).on_host() || buffer(slot).memory == Memory::Managed);
  };
  return other(work.dst) || other(work.src);
}

/// Whether a stream waits in its capture for a node that it comes right behind already.
bool Machine::waits_again(const Step& step) {
  const auto& n = step.number;
  if (n[0] < 0 || n[0] > kLegacy || n[1] < 0 || n[1] >= kEvents) return false;
  const Stream& on = stream(n[0], step.thread);
  const Event& of = events_[static_cast<std::size_t>(n[1])];
  return on.capture && of.captured == on.capture->number && std::any_of(of.tail.begin(), of.tail.end(), [&](int node) {
           return std::find(on.tail.begin(), on.tail.end(), node) != on.tail.end();
         });
}

/// Whether the step is a wait by which streams that are not the origin may be forked from each other both ways.
bool Machine::forks_back(const Step& step) {
  const auto& n = step.number;
  if (n[0] < 0 || n[0] > kLegacy || n[1] < 0 || n[1] >= kEvents) return false;
  const Stream& on = stream(n[0], step.thread);
  const Event& of = events_[static_cast<std::size_t>(n[1])];
  return on.capture && of.captured == on.capture->number && n[0] != on.capture->origin &&
         of.recorded_on != on.capture->origin;
}

/// Whether a stream still takes part in the capture.
bool Machine::is_open(const Capture* capture) const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [capture](const Stream& each) { return each.capture.get() == capture; });
}

/// Whether the step allocates or frees in the null stream's order while a blocking stream captures.
bool Machine::in_null_order(const Step& step) {
  const auto& n = step.number;
  const bool allocates = step.kind == Kind::allocate && n[1] == static_cast<std::int64_t>(Memory::Async);
  const bool frees = step.kind == Kind::release && n[1] == 1;
  const std::int64_t on = allocates ? n[3] : n[2];
  return (allocates || frees) && (on == kNull || on == kLegacy) &&
         std::any_of(streams_.begin(), streams_.end(),
                     [](const Stream& each) { return each.live && each.blocking && each.capture; });
}

/// False for a step that AMD's runtimes do not survive.
bool Machine::survived(const Step& step) {
  const auto& n = step.number;
  if (features_.null_order_alone && in_null_order(step)) return false;
  const auto event_at = [&](std::int64_t slot) {
    return slot >= 0 && slot < kEvents ? events_[static_cast<std::size_t>(slot)] : Event{};
  };
  switch (step.kind) {
    case Kind::stream_destroy:
      if (n[0] < 0 || n[0] >= kStreams || !stream(n[0], 0).capture) return true;
      return !features_.captures_ended && (!features_.own_destroys || stream(n[0], 0).capture->thread == step.thread);
    case Kind::event_record: {
      if (features_.legacy_records && n[1] == kLegacy) return false;
      if (!features_.kept_nodes || n[1] < 0 || n[1] > kLegacy || !event_at(n[0]).had_nodes) return true;
      const Stream& on = stream(n[1], step.thread);
      return !on.capture || !on.tail.empty();
    }
    case Kind::event_destroy: {
      const Event gone = event_at(n[0]);
      return !features_.left_events || std::none_of(gone.left.begin(), gone.left.end(),
                                                    [&](const auto& capture) { return is_open(capture.get()); });
    }
    case Kind::bad_call: {
      if (!features_.lost_captures || n[0] % 32 < 22 || n[0] % 32 > 26) return true;
      const Stream& on = streams_[static_cast<std::size_t>(n[1] % kStreams)];
      return !on.stale && !on.lost;
    }
    case Kind::begin: {
      if (features_.own_captures && n[0] == kPerThread) return false;
      if (n[0] < 0 || n[0] > kLegacy) return true;
      const Stream& on = stream(n[0], step.thread);
      return !on.stale && !(features_.lost_captures && on.capture && on.capture->doubtful);
    }
    case Kind::end:
      return n[0] < 0 || n[0] > kLegacy || !stream(n[0], step.thread).stale;
    case Kind::event_sync:
    case Kind::event_query:
      return !event_at(n[0]).orphan;
    case Kind::event_wait: {
      if (event_at(n[1]).captured != 0 && ((features_.null_joins && (n[0] == kNull || n[0] == kLegacy)) ||
                                           (features_.own_captures && n[0] == kPerThread)))
        return false;
      if ((features_.waits_once && waits_again(step)) || (features_.forks_one_way && forks_back(step))) return false;
      if (event_at(n[1]).orphan || !features_.mixed_captures || n[0] < 0 || n[0] > kLegacy)
        return !event_at(n[1]).orphan;
      const auto capture = stream(n[0], step.thread).capture;
      if (stream(n[0], step.thread).stale && event_at(n[1]).captured != 0) return false;
      return !capture || event_at(n[1]).captured == 0 || event_at(n[1]).captured == capture->number;
    }
    case Kind::instantiate:
    case Kind::exec_update: {
      if (!features_.home_instantiates || n[1] < 0 || n[1] >= kGraphs) return true;
      const std::vector<Node>& nodes = graph(static_cast<int>(n[1])).nodes;
      return std::none_of(nodes.begin(), nodes.end(), [&](const Node& node) {
        return (node.work || !node.inner.empty()) && node.device != thread(step.thread).device;
      });
    }
    case Kind::exec_destroy:
      return !features_.flown_destroys || n[0] < 0 || n[0] >= kExecs || !in_flight(exec(static_cast<int>(n[0])));
    case Kind::release:
    case Kind::release_inside:
      return !features_.captured_stay || n[0] < 0 || n[0] >= kBuffers || !captured(n[0]);
    case Kind::work:
    case Kind::add_node:
    case Kind::node_set:
    case Kind::child_set:
    case Kind::exec_set:
      return (!features_.host_fills || !fills_host(step)) && (!features_.rows_at_home || !copies_rows_away(step)) &&
             (!features_.device_rows || !copies_other_rows(step));
    default:
      return true;
  }
}

bool Machine::allowed(const Step& step) {
  const auto& n = step.number;
  if (step.thread < 0 || step.thread >= kThreads || names_dead_module(step) || !survived(step)) return false;
  const auto stream_ok = [&](std::int64_t number) {
    if (number == kLegacy && features_.no_legacy) return false;
    return number >= 0 && number <= kLegacy && stream(number, step.thread).live && !stream(number, step.thread).lost;
  };
  const auto slot_ok = [](const auto& array, std::int64_t slot) {
    return slot >= 0 && static_cast<std::size_t>(slot) < array.size() && array[static_cast<std::size_t>(slot)].live;
  };
  const auto slot_free = [](const auto& array, std::int64_t slot) {
    return slot >= 0 && static_cast<std::size_t>(slot) < array.size() && !array[static_cast<std::size_t>(slot)].live;
  };
  const auto node_ok = [&](const Graph& in, const Node& added) {
    if (in.nodes.size() >= kMostNodes) return false;
    std::vector<Node> nodes = in.nodes;
    nodes.push_back(added);
    return nodes_ordered(nodes);
  };
  const auto changed_ok = [&](std::vector<Node> nodes, std::int64_t index, const Work& work) {
    Node& node = nodes[static_cast<std::size_t>(index)];
    if (!node.work || node.work->what != work.what || node.work->bad() || work.bad()) return false;
    if (node.work->module() != work.module()) return false;
    if ((work.what == Work::Copy || work.what == Work::Copy2D) && copy_kind(*node.work) != copy_kind(work))
      return false;
    if (!fits(work, node.device)) return false;
    node.accesses = accesses(work);
    return nodes_ordered(nodes);
  };
  switch (step.kind) {
    case Kind::set_device:
    case Kind::end_own:
      return n[0] >= 0 && n[0] < devices();
    case Kind::stream_create:
      return slot_free(streams_, n[0]);
    case Kind::stream_destroy:
      return slot_ok(streams_, n[0]);
    case Kind::stream_sync:
    case Kind::stream_query:
    case Kind::capture_status:
      return stream_ok(n[0]);
    case Kind::event_create:
      return slot_free(events_, n[0]);
    case Kind::event_destroy:
    case Kind::event_sync:
    case Kind::event_query:
      return slot_ok(events_, n[0]);
    case Kind::event_record:
      return slot_ok(events_, n[0]) && stream_ok(n[1]);
    case Kind::event_wait: {
      if (!stream_ok(n[0]) || !slot_ok(events_, n[1])) return false;
      // What comes behind nodes that are gone is refused, unless new ones of this capture have their handles.
      const Event& of = event(static_cast<int>(n[1]));
      return !of.dangling && !(features_.handles_return && of.foreign);
    }
    case Kind::allocate:
      return slot_free(buffers_, n[0]) && n[1] >= 0 && n[1] < static_cast<std::int64_t>(Memory::kCount) && n[2] >= 4 &&
             n[2] <= 1 << 20 && stream_ok(n[3]) &&
             (static_cast<Memory>(n[1]) != Memory::Async ||
              stream(n[3], step.thread).device == thread(step.thread).device);
    case Kind::release:
    case Kind::release_inside: {
      if (!slot_ok(buffers_, n[0])) return false;
      const Buffer& target = buffer(n[0]);
      if (step.kind == Kind::release && !stream_ok(n[2])) return false;
      // By an address inside it memory of a pool is for the runtime to judge, and pageable memory is not HIP's.
      if (step.kind == Kind::release_inside &&
          (!features_.inner_frees || target.memory == Memory::Async || target.memory == Memory::Pageable || n[1] < 1 ||
           static_cast<std::size_t>(n[1]) >= target.bytes()))
        return false;
      const auto captured = [&](const Graph& graph) {
        return graph.live && std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
                 return std::any_of(node.accesses.begin(), node.accesses.end(), [&](const Access& access) {
                   return access.buffer == n[0] && access.generation == target.generation;
                 });
               });
      };
      if (!features_.frees_captured && std::any_of(graphs_.begin(), graphs_.end(), captured)) return false;
      const bool in_order = step.kind == Kind::release && n[1] == 1;
      Stream& on = stream(in_order ? n[2] : kNull, step.thread);
      return free_is_ordered(target, on, in_order);
    }
    case Kind::export_memory:
      return features_.exports && slot_ok(buffers_, n[0]) &&
             (buffer(n[0]).memory == Memory::Malloc || buffer(n[0]).memory == Memory::ExtMalloc);
    case Kind::module_load:
      return slot_free(modules_, n[0]) && n[1] >= 0 && n[1] <= 1;
    case Kind::module_unload: {
      if (!slot_ok(modules_, n[0])) return false;
      const Module& gone = module(n[0]);
      const auto names = [&](const Stream& each) {
        return each.capture && std::any_of(each.capture->nodes.begin(), each.capture->nodes.end(),
                                           [&](const Node& node) { return node.module == gone.generation; });
      };
      const auto any_names = [&](const std::vector<Stream>& each) {
        return std::any_of(each.begin(), each.end(), names);
      };
      return host_covers_device(gone.device) && std::none_of(streams_.begin(), streams_.end(), names) &&
             std::none_of(thread_streams_.begin(), thread_streams_.end(), any_names);
    }
    case Kind::attribute:
      return n[0] >= 0 && n[0] <= Work::Nothing && n[1] >= 0;
    case Kind::use_gone:
      return features_.gone && n[0] >= 0 && n[1] >= 0;
    case Kind::work: {
      if (!stream_ok(n[0])) return false;
      const Work work = step.work();
      Stream& on = stream(n[0], step.thread);
      if (!fits(work, on.device)) return false;
      if (on.capture) {
        if (on.capture->doubtful) return true;
        Node node;
        node.accesses = accesses(work);
        node.after = on.tail;
        Graph graph;
        graph.nodes = on.capture->nodes;
        return node_ok(graph, node);
      }
      Obstacle obstacle;
      return ready(accesses(work), clock_of_next(on), &obstacle);
    }
    case Kind::copy_sync: {
      const Work work = step.work();
      Stream& on = null_streams_[static_cast<std::size_t>(thread(step.thread).device)];
      Obstacle obstacle;
      return work.what == Work::Copy && fits(work, on.device) && ready(accesses(work), clock_of_next(on), &obstacle);
    }
    case Kind::read: {
      if (!slot_ok(buffers_, n[0]) || n[1] < 0 || n[2] < 1 || n[1] + n[2] > kParts) return false;
      const Buffer& target = buffer(n[0]);
      Stream& on = null_streams_[static_cast<std::size_t>(thread(step.thread).device)];
      if (target.memory == Memory::Async && target.device != on.device) return false;
      Obstacle obstacle;
      const Clock clock = target.memory == Memory::Pageable ? host_ : clock_of_next(on);
      return ready({{n[0], target.generation, n[1], n[2], false, false}}, clock, &obstacle);
    }
    case Kind::host_write: {
      if (!slot_ok(buffers_, n[0]) || !buffer(n[0]).on_host() || n[1] < 0 || n[1] >= kParts) return false;
      Obstacle obstacle;
      return ready({{n[0], buffer(n[0]).generation, n[1], 1, true, true}}, host_, &obstacle);
    }
    case Kind::begin:  // thread 0 lives on: a capture of its own stream that cannot be ended would too
      return stream_ok(n[0]) && n[1] >= 0 && n[1] <= 3 && (n[0] != kPerThread || step.thread != 0);
    case Kind::end:
      return stream_ok(n[0]) && slot_free(graphs_, n[1]);
    case Kind::capture_mode:
      return n[0] >= 0 && n[0] <= 2;
    case Kind::capture_nodes:
      return stream_ok(n[0]);
    case Kind::momentary: {
      if (!stream_ok(n[0]) || n[1] < 0 || n[1] > 5) return false;
      const auto capture = stream(n[0], step.thread).capture;
      constexpr std::int64_t kTwice = 3;  // it waits for one event twice
      return capture && !capture->doubtful && (n[1] != kTwice || !features_.waits_once);
    }
    case Kind::capture_behind: {
      if (!stream_ok(n[0]) || !stream_ok(n[1])) return false;
      const auto capture = stream(n[0], step.thread).capture;
      return capture && !capture->doubtful && capture == stream(n[1], step.thread).capture;
    }
    case Kind::instantiate:
      return slot_free(execs_, n[0]) && slot_ok(graphs_, n[1]);
    case Kind::launch: {
      if (!slot_ok(execs_, n[0]) || !stream_ok(n[1])) return false;
      Obstacle obstacle;
      return launchable(exec(static_cast<int>(n[0])), stream(n[1], step.thread), &obstacle);
    }
    case Kind::upload:
      return slot_ok(execs_, n[0]) && stream_ok(n[1]);
    case Kind::exec_destroy:
      return slot_ok(execs_, n[0]);
    case Kind::graph_destroy:
      return slot_ok(graphs_, n[0]);
    case Kind::exec_update: {
      if (!slot_ok(execs_, n[0]) || !slot_ok(graphs_, n[1])) return false;
      // The runtime would refuse memory that is gone; kept memory is still there.
      const std::vector<Node>& nodes = graph(static_cast<int>(n[1])).nodes;
      const Exec& of = exec(static_cast<int>(n[0]));
      if (!live(graph_accesses(nodes)) || !may_copy_now(host_copies(nodes)) || !devices_certain(of.nodes)) return false;
      // Of a graph nobody knows the nodes of all memory counts.
      const Graph& by = graph(static_cast<int>(n[1]));
      if (!by.known && by.begun <= last_free_) return false;
      return !features_.params_at_node || !in_flight(of);
    }
    case Kind::clone:
      return slot_free(graphs_, n[0]) && slot_ok(graphs_, n[1]);
    case Kind::graph_create:
      return slot_free(graphs_, n[0]);
    case Kind::add_node: {
      const Work work = step.work();
      if (!slot_ok(graphs_, n[0]) || !graph(static_cast<int>(n[0])).by_hand) return false;
      const Graph& into = graph(static_cast<int>(n[0]));
      if (into.device != thread(step.thread).device || !fits(work, into.device) || work.bad()) return false;
      Node node;
      node.accesses = accesses(work);
      for (const std::int64_t after : {n[1], n[2]})
        if (after >= 0 && static_cast<std::size_t>(after) < into.nodes.size())
          node.after.push_back(static_cast<int>(after));
      return node_ok(into, node);
    }
    case Kind::add_child: {
      if (!slot_ok(graphs_, n[0]) || !slot_ok(graphs_, n[2]) || n[0] == n[2]) return false;
      const Graph &into = graph(static_cast<int>(n[0])), &child = graph(static_cast<int>(n[2]));
      if (!into.by_hand || !child.known || child.device != into.device || child.nodes.empty()) return false;
      Node node;
      node.accesses = graph_accesses(child.nodes);
      if (!live(node.accesses)) return false;
      if (n[1] >= 0 && static_cast<std::size_t>(n[1]) < into.nodes.size()) node.after.push_back(static_cast<int>(n[1]));
      return node_ok(into, node);
    }
    case Kind::child_nodes:
    case Kind::child_set: {
      if (!slot_ok(graphs_, n[0])) return false;
      const Graph& in = graph(static_cast<int>(n[0]));
      if (!in.known || !node_in(in.nodes, n[1]) || in.nodes[static_cast<std::size_t>(n[1])].work) return false;
      if (step.kind == Kind::child_nodes) return true;
      std::vector<Node> nodes = in.nodes;
      Node& child = nodes[static_cast<std::size_t>(n[1])];
      for (std::size_t i = 0; i < child.inner.size(); ++i) {
        const Node& each = child.inner[i];
        if (!each.work || each.after != (i == 0 ? std::vector<int>() : std::vector<int>{static_cast<int>(i) - 1}))
          return false;
      }
      const Work work = step.work();
      if (n[2] < 0 || static_cast<std::size_t>(n[2]) >= child.inner.size()) return false;
      if (!changed_ok(child.inner, n[2], work)) return false;
      child.inner[static_cast<std::size_t>(n[2])].accesses = accesses(work);
      child.accesses = graph_accesses(child.inner);
      return live(child.accesses) && nodes_ordered(nodes);
    }
    case Kind::add_edge: {
      if (!slot_ok(graphs_, n[0])) return false;
      const Graph& in = graph(static_cast<int>(n[0]));
      return n[1] < n[2] && node_in(in.nodes, n[1]) && node_in(in.nodes, n[2]);
    }
    case Kind::remove_edge: {
      if (!slot_ok(graphs_, n[0])) return false;
      std::vector<Node> nodes = graph(static_cast<int>(n[0])).nodes;
      if (!node_in(nodes, n[1]) || !node_in(nodes, n[2])) return false;
      return std::erase(nodes[static_cast<std::size_t>(n[2])].after, static_cast<int>(n[1])) == 1 &&
             nodes_ordered(nodes);
    }
    case Kind::node_destroy: {
      if (!slot_ok(graphs_, n[0])) return false;
      std::vector<Node> nodes = graph(static_cast<int>(n[0])).nodes;
      if (!graph(static_cast<int>(n[0])).known || !node_in(nodes, n[1])) return false;
      take_out(&nodes, n[1]);
      return nodes_ordered(nodes);
    }
    case Kind::list_nodes:
      return slot_ok(graphs_, n[0]);
    case Kind::node_values:
    case Kind::node_set: {
      if (!slot_ok(graphs_, n[0])) return false;
      const Graph& in = graph(static_cast<int>(n[0]));
      if (!in.known || n[1] < 0 || static_cast<std::size_t>(n[1]) >= in.nodes.size()) return false;
      const Node& node = in.nodes[static_cast<std::size_t>(n[1])];
      if (node.handle == nullptr || !node.work || node.work->bad()) return false;
      if (step.kind == Kind::node_values) return node.work->kernel() && live(node.accesses);
      return changed_ok(in.nodes, n[1], step.work());
    }
    case Kind::node_edit:
    case Kind::exec_edit: {
      const bool in_exec = step.kind == Kind::exec_edit;
      if (in_exec ? !slot_ok(execs_, n[0]) : !slot_ok(graphs_, n[0])) return false;
      const Exec* const of = in_exec ? &exec(static_cast<int>(n[0])) : nullptr;
      if (in_exec &&
          (!exec_node_known(*of, n[1]) || features_.keeps_arguments || (features_.params_at_node && in_flight(*of))))
        return false;
      const Graph& in = graph(static_cast<int>(in_exec ? of->graph : n[0]));
      if (!in.known || !node_in(in.nodes, n[1])) return false;
      const Node& node = in.nodes[static_cast<std::size_t>(n[1])];
      if (!node.work || node.work->bad() || node.work->what > Work::Set || !live(node.accesses)) return false;
      return changed_ok(in.nodes, n[1], *node.work) && (!in_exec || changed_ok(of->nodes, n[1], *node.work));
    }
    case Kind::exec_set: {
      if (!slot_ok(execs_, n[0])) return false;
      const Exec& of = exec(static_cast<int>(n[0]));
      if (!exec_node_known(of, n[1]) || (features_.params_at_node && in_flight(of))) return false;
      if (!changed_ok(of.nodes, n[1], step.work())) return false;
      const Node& set = of.nodes[static_cast<std::size_t>(n[1])];
      if (!devices_certain({set})) return false;
      // From HIP 7 on a kernel's node moves to the device that is current, where the function is not.
      if (step.work().kernel() && set.device != thread(step.thread).device) return false;
      Node node;
      node.work = step.work();
      return may_copy_now(host_copies({node}));
    }
    case Kind::exec_enable: {
      if (!slot_ok(execs_, n[0])) return false;
      const Exec& of = exec(static_cast<int>(n[0]));
      return exec_node_known(of, n[1]) && !(features_.params_at_node && in_flight(of));
    }
    case Kind::exec_child: {
      if (!slot_ok(execs_, n[0]) || !slot_ok(graphs_, n[2])) return false;
      const Exec& of = exec(static_cast<int>(n[0]));
      const Graph& child = graph(static_cast<int>(n[2]));
      if (!exec_node_known(of, n[1]) || (features_.params_at_node && in_flight(of))) return false;
      std::vector<Node> nodes = of.nodes;
      Node& node = nodes[static_cast<std::size_t>(n[1])];
      if (node.work || n[2] == of.graph || !child.known || child.device != of.device || child.nodes.empty() ||
          std::any_of(child.nodes.begin(), child.nodes.end(), [](const Node& each) { return !each.work; }))
        return false;
      node.accesses = graph_accesses(child.nodes);
      return live(node.accesses) && nodes_ordered(nodes) && may_copy_now(host_copies(child.nodes));
    }
    case Kind::mem_info:
      return !features_.no_mem_info && std::all_of(stream_frees_.begin(), stream_frees_.end(),
                                                   [&](const Stamp& stamp) { return covers(host_, stamp); });
    case Kind::address_range:
    case Kind::attributes:
      return slot_ok(buffers_, n[0]) && buffer(n[0]).memory != Memory::Pageable && n[1] >= 0 &&
             static_cast<std::size_t>(n[1]) < buffer(n[0]).bytes();
    case Kind::bad_call:
      return n[1] >= 0;
    case Kind::end_thread: {
      if (step.thread == 0) return false;
      const auto thread = static_cast<std::size_t>(step.thread);
      // A capture that it began on another stream stays, and nobody could end it.
      const auto busy = [&](const Stream& each) {
        return each.capture && each.capture->thread == step.thread && each.capture->own_of != step.thread;
      };
      const auto refused = [&](const Stream& own) { return busy(own) || (features_.captures_ended && own.capture); };
      return std::none_of(streams_.begin(), streams_.end(), busy) &&
             std::none_of(thread_streams_[thread].begin(), thread_streams_[thread].end(), refused);
    }
    default:
      return true;
  }
}

}  // namespace property
