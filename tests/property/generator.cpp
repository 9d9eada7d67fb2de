#include "generator.h"

#include <algorithm>
#include <iterator>

namespace property {
namespace {

constexpr std::uint64_t kNeighbours = 64;  ///< programs that share a catalogue
constexpr std::int64_t kSizes[] = {16, 32, 64, 256};
constexpr int kTries = 6;  ///< preparations for one step before it is left out

template <typename Values>
auto pick(Random& random, const Values& values) {
  return values[static_cast<std::size_t>(random.below(static_cast<int>(values.size())))];
}

}  // namespace

Generator::Generator(std::uint64_t seed, Machine& machine)
    : random_(seed), staying_(seed + 104729), special_(seed + 224737), machine_(machine) {
  Random shared(seed / kNeighbours + 7919);
  for (int i = 0; i < 6; ++i) catalogue_.push_back(make_body(shared));
  Random fed(seed / kNeighbours + 15485863);
  for (Body& body : catalogue_)
    if (fed.chance(20)) body.others_from = fed.below(static_cast<int>(body.items.size()));
  left_ = 30 + random_.below(110);
  part_ints_ = kSizes[random_.below(4)];
  const int streams = 2 + random_.below(3);
  for (int i = 0; i < streams; ++i) {
    if (machine_.devices() > 1 && random_.chance(15))
      plan_.push_back(make(Kind::set_device, 0, {random_.below(machine_.devices())}));
    plan_.push_back(make(Kind::stream_create, 0, {i, random_.chance(70)}));
  }
  plan_.push_back(make(Kind::set_device, 0, {0}));
  for (int i = 0; i < 3; ++i) plan_.push_back(make(Kind::event_create, 0, {i}));
  for (int i = 0; i < 4; ++i) plan_.push_back(make(Kind::allocate, 0, {i, 0, part_ints_, kNull}));
  plan_.push_back(make(Kind::allocate, 0, {4, random_.chance(50) ? 3 : 4, part_ints_, kNull}));
}

Work Generator::make_work(Random& random, int symbols) const {
  Work work;
  constexpr Work::What kOften[] = {Work::Mix,    Work::Mix,  Work::Set,   Work::Join,
                                   Work::Padded, Work::Copy, Work::Fill8, Work::Fill32};
  work.what = random.chance(65) ? pick(random, std::vector<Work::What>(std::begin(kOften), std::end(kOften)))
                                : static_cast<Work::What>(random.below(Work::Peer));
  work.dst = random.below(symbols);
  work.src = random.below(symbols);
  work.parts = random.chance(60) ? kParts : 1 + random.below(2);
  work.first = work.parts == kParts ? 0 : random.below(kParts - static_cast<int>(work.parts) + 1);
  work.src_first = work.parts == kParts ? 0 : random.below(kParts - static_cast<int>(work.parts) + 1);
  work.quarter = random.chance(85) ? 4 : random.below(5);
  work.value = 1 + random.below(1000);
  work.form = random.below(16);
  return work;
}

Body Generator::make_body(Random& random) const {
  Body body;
  body.lanes = 1 + (random.chance(40) ? 1 + random.below(2) : 0);
  const int length = 1 + random.below(random.chance(80) ? 8 : 24);
  std::vector<bool> forked(static_cast<std::size_t>(body.lanes));
  forked[0] = true;
  const auto add = [&](Body::Item::Type type, int lane, int other) {
    Body::Item item;
    item.type = type;
    item.lane = lane;
    item.other = other;
    body.items.push_back(item);
  };
  for (int i = 0; i < length; ++i) {
    const int lane = random.below(body.lanes);
    if (!forked[static_cast<std::size_t>(lane)]) {
      add(Body::Item::Fork, 0, lane);
      forked[static_cast<std::size_t>(lane)] = true;
    }
    Body::Item item;
    item.work = make_work(random, kSymbols);
    // Lanes that run beside each other work on buffers of their own, mostly.
    if (body.lanes > 1 && random.chance(80)) {
      item.work.dst = lane % kSymbols;
      if (random.chance(70)) item.work.src = 3;
    }
    item.lane = lane;
    item.varies = random.chance(30);
    body.items.push_back(item);
    if (lane != 0 && random.chance(25)) {
      add(Body::Item::Join, lane, 0);
    } else if (random.chance(4)) {
      add(Body::Item::Outside, lane, 0);
    } else if (random.chance(4)) {
      add(Body::Item::Status, lane, 0);
    }
  }
  for (int lane = 1; lane < body.lanes; ++lane)
    if (forked[static_cast<std::size_t>(lane)]) add(Body::Item::Join, lane, 0);
  return body;
}

Body Generator::mutated(const Body& body) {
  Body other = body;
  std::vector<std::size_t> operations;
  for (std::size_t i = 0; i < other.items.size(); ++i)
    if (other.items[i].type == Body::Item::Operation) operations.push_back(i);
  // First and last are wanted often: they are where matching begins and ends.
  const std::size_t at = random_.chance(25)   ? operations.front()
                         : random_.chance(35) ? operations.back()
                                              : pick(random_, operations);
  const auto place = other.items.begin() + static_cast<std::ptrdiff_t>(at);
  switch (random_.below(5)) {
    case 0: {  // one operation is another
      const int lane = place->lane;
      place->work = make_work(random_, kSymbols);
      place->lane = lane;
      break;
    }
    case 1: {  // longer
      Body::Item more = *place;
      more.work = make_work(random_, kSymbols);
      other.items.insert(place + 1, more);
      break;
    }
    case 2:  // shorter by one
      if (operations.size() > 1) other.items.erase(place);
      break;
    case 3: {  // a prefix
      if (body.lanes == 1) other.items.erase(place + 1, other.items.end());
      break;
    }
    default:  // another range or form of the same operation
      place->work.form = random_.below(16);
      place->work.quarter = random_.chance(70) ? 4 : random_.below(5);
      place->work.value += 1;
  }
  return other;
}

// --- choosing ---

std::vector<int> Generator::live_streams(int device) const {
  std::vector<int> found;
  for (int i = 0; i < kStreams; ++i)
    if (machine_.stream_slot(i).live && !machine_.stream_slot(i).capture && machine_.stream_slot(i).device == device)
      found.push_back(i);
  return found;
}

std::vector<int> Generator::free_graphs() const {
  std::vector<int> found;
  for (int i = 0; i < kGraphs; ++i)
    if (!machine_.graph(i).live) found.push_back(i);
  return found;
}

int Generator::any_stream(int thread) {
  if (random_.chance(12)) return kNull + random_.below(3);
  const std::vector<int> streams = live_streams(machine_.thread(thread).device);
  return streams.empty() ? kNull : pick(random_, streams);
}

/// A buffer for each symbol, of the device; sometimes two symbols are one buffer.
std::vector<int> Generator::choose_symbols(int device) {
  std::vector<int> slots, symbols;
  for (int i = 0; i < kBuffers; ++i) {
    const Buffer& buffer = machine_.buffer(i);
    if (!buffer.live || buffer.part_ints != part_ints_) continue;
    if (buffer.device == device || buffer.on_host() || random_.chance(10)) slots.push_back(i);
  }
  if (slots.empty()) return std::vector<int>(kSymbols, 0);
  for (int i = 0; i < kSymbols; ++i) {
    const auto at = static_cast<std::size_t>(random_.below(static_cast<int>(slots.size())));
    symbols.push_back(slots[at]);
    if (slots.size() > 1 && !random_.chance(12)) slots.erase(slots.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return symbols;
}

Work Generator::bound(const Work& work, const std::vector<int>& symbols, bool varies) {
  Work made = work;
  made.dst = symbols[static_cast<std::size_t>(work.dst) % symbols.size()];
  made.src = symbols[static_cast<std::size_t>(work.src) % symbols.size()];
  if (varies && !exactly_) made.value += ++constant_;
  // What the chosen memory is not good for becomes what it is good for.
  const Buffer& dst = machine_.buffer(made.dst);
  if (dst.live && dst.on_host() && made.what != Work::Copy && dst.memory == Memory::Pageable) made.what = Work::Host;
  if (dst.live && !dst.on_host() && made.what == Work::Host) made.what = Work::Mix;
  if (made.dst == made.src && (made.what == Work::Join || made.what == Work::Copy || made.what == Work::Copy2D)) {
    if (made.parts > 1) made.parts = 1;
    if (made.first == made.src_first) made.src_first = (made.first + 1) % kParts;
  }
  if (made.kernel() && !made.bad() && work.value % 5 == 0) made.form |= Work::kStub;
  const int module = static_cast<int>(work.value % kModules);
  if (made.what < std::ssize(kOfModules) && !made.bad() && work.value % 5 == 1 && machine_.module(module).live)
    made.form |= Work::kModule * (module + 1);
  if (made.what == Work::Join && work.value % 3 == 0 && machine_.buffer(made.src).exported &&
      made.form < Work::kModule && (made.form & Work::kStub) == 0)
    made.what = Work::Peer;
  return made;
}

// --- scenes ---

void Generator::capture_once(std::deque<Step>* plan, int thread, const Body& body, std::vector<int>& symbols,
                             int origin, int mode, int graph) {
  const int device = machine_.stream(origin, thread).device;
  std::vector<int> lanes{origin};
  for (const int stream : live_streams(device))
    if (stream != origin && lanes.size() < static_cast<std::size_t>(body.lanes)) lanes.push_back(stream);
  const auto stream_of = [&](int lane) { return lanes[static_cast<std::size_t>(lane) % lanes.size()]; };
  plan->push_back(make(Kind::begin, thread, {origin, mode}));
  const bool another_thread = random_.chance(4);
  const bool temporary = random_.chance(40);
  for (std::size_t i = 0; i < body.items.size(); ++i) {
    const Body::Item& item = body.items[i];
    const bool others = body.others_from >= 0 && i >= static_cast<std::size_t>(body.others_from);
    const int by = (another_thread && random_.chance(50)) != others ? (thread + 1) % kThreads : thread;
    const int stream = stream_of(item.lane);
    switch (item.type) {
      case Body::Item::Operation:
        plan->push_back(make(Kind::work, by, {stream}, bound(item.work, symbols, item.varies)));
        if (body.lanes > 1 && staying_.chance(4))
          plan->push_back(
              make(Kind::capture_behind, by, {stream, stream_of(staying_.below(body.lanes)), staying_.below(2)}));
        // No draw: a body has them at the same places each time.
        if ((i + body.items.size()) % 5 == 0)
          plan->push_back(make(Kind::momentary, by, {stream, static_cast<int>(body.items.size() % 6)}));
        break;
      case Body::Item::Fork:
      case Body::Item::Join: {
        const int from = stream_of(item.type == Body::Item::Fork ? item.lane : item.lane), to = stream_of(item.other);
        if (from == to) break;
        const int event = temporary ? kEvents - 1 : random_.below(3);
        if (temporary) plan->push_back(make(Kind::event_create, thread, {event}));
        plan->push_back(make(Kind::event_record, by, {event, from}));
        plan->push_back(make(Kind::event_wait, by, {to, event}));
        if (temporary) plan->push_back(make(Kind::event_destroy, thread, {event}));
        break;
      }
      case Body::Item::Outside:
        plan->push_back(make(Kind::event_wait, by, {stream, random_.below(kEvents)}));
        break;
      case Body::Item::Status:
        plan->push_back(make(random_.chance(80) ? Kind::capture_status : Kind::capture_nodes, by, {stream}));
        break;
    }
  }
  const int by = random_.chance(2) ? (thread + 1) % kThreads : thread;
  plan->push_back(make(Kind::end, by, {origin, graph}));
  if (by != thread) plan->push_back(make(Kind::end, thread, {origin, graph}));
}

void Generator::capture(std::deque<Step>* plan, int thread) {
  const std::vector<int> streams = live_streams(machine_.thread(thread).device);
  std::vector<int> graphs = free_graphs();
  if (graphs.empty()) plan->push_back(make(Kind::graph_destroy, thread, {random_.below(kGraphs)}));
  if (streams.empty()) {
    for (int i = 0; i < kStreams; ++i)
      if (!machine_.stream_slot(i).live) {
        plan->push_back(make(Kind::stream_create, thread, {i, 1}));
        return;
      }
    return;
  }
  const int graph = graphs.empty() ? random_.below(kGraphs) : pick(random_, graphs);
  const int origin = random_.chance(8) ? kPerThread : pick(random_, streams);
  const int exec = random_.below(kExecs);
  const int mode = random_.chance(2) ? 3 : random_.below(3);
  const int device = machine_.stream(origin, thread).device;
  Body body = random_.chance(75) ? pick(random_, catalogue_) : make_body(random_);
  std::vector<int> symbols = choose_symbols(device);
  const int rounds = 1 + random_.below(4);
  const int keeps =
      random_.below(4);  // what stays from round to round: 0 nothing, 1 the exec, 2 buffers too, 3 all differs
  for (int round = 0; round < rounds; ++round) {
    const Body now = random_.chance(22) ? mutated(body) : body;
    exactly_ = random_.chance(55);
    if (keeps != 2 && random_.chance(60)) symbols = choose_symbols(device);
    capture_once(plan, thread, now, symbols, origin, mode, graph);
    if (random_.chance(8)) plan->push_back(make(Kind::release, thread, {symbols[0], 0, kNull}));
    if (random_.chance(5)) plan->push_back(make(Kind::list_nodes, thread, {graph}));
    if (random_.chance(5)) {
      const int other = (graph + 1) % kGraphs;
      plan->push_back(make(Kind::clone, thread, {other, graph}));
      if (random_.chance(50)) plan->push_back(make(Kind::graph_destroy, thread, {other}));
    }
    const bool updates = keeps == 1 && round > 0;
    if (updates && origin < kStreams && staying_.chance(30)) {
      update_beside_capture(plan, thread, exec, graph, origin);
    } else if (updates) {
      plan->push_back(make(Kind::exec_update, thread, {exec, graph}));
    } else {
      plan->push_back(make(Kind::exec_destroy, thread, {exec}));
      plan->push_back(make(Kind::instantiate, thread, {exec, graph, random_.chance(70) ? 0 : random_.below(3)}));
    }
    if (staying_.chance(5)) stay(plan, thread, exec, graph, origin);
    const bool early = random_.chance(40);
    if (early) plan->push_back(make(Kind::graph_destroy, thread, {graph}));
    if (random_.chance(6)) plan->push_back(make(Kind::upload, thread, {exec, any_stream(thread)}));
    const int launches = random_.below(4);
    for (int i = 0; i < launches; ++i)
      plan->push_back(
          make(Kind::launch, thread, {exec, random_.chance(70) && origin < kStreams ? origin : any_stream(thread)}));
    if (random_.chance(40)) wait_somewhere(plan, thread);
    if (random_.chance(40)) plan->push_back(make(Kind::read, thread, {symbols[0], 0, kParts}));
    if (keeps != 1 && random_.chance(70)) plan->push_back(make(Kind::exec_destroy, thread, {exec}));
    if (!early) plan->push_back(make(Kind::graph_destroy, thread, {graph}));
  }
}

/// The exec is bound to the same buffers again and again.
void Generator::stay(std::deque<Step>* plan, int thread, int exec, int graph, int origin) {
  const int bindings = 8 + staying_.below(6);
  for (int i = 0; i < bindings; ++i) {
    plan->push_back(make(Kind::exec_update, thread, {exec, graph}));
    if (staying_.chance(30)) plan->push_back(make(Kind::launch, thread, {exec, origin}));
  }
}

/// An exec is launched on the stream, updated while that launch may still run, and launched again on another stream
/// while the first one, or both, are being captured.
void Generator::update_beside_capture(std::deque<Step>* plan, int thread, int exec, int graph, int stream) {
  const int beside = any_stream(thread), event = staying_.below(3), other = (graph + 1) % kGraphs;
  const Step begin = make(Kind::begin, thread, {stream, staying_.below(3)});
  plan->push_back(make(Kind::graph_destroy, thread, {other}));
  plan->push_back(make(Kind::launch, thread, {exec, stream}));
  if (staying_.chance(70)) {
    plan->push_back(make(Kind::event_record, thread, {event, stream}));
    plan->push_back(make(Kind::event_wait, thread, {beside, event}));
  }
  const bool in_capture = staying_.chance(50);
  if (in_capture) plan->push_back(begin);
  plan->push_back(make(Kind::exec_update, thread, {exec, graph}));
  if (!in_capture) plan->push_back(begin);
  const bool captured_too = beside < kStreams && staying_.chance(30);
  if (captured_too) {
    plan->push_back(make(Kind::event_record, thread, {event, stream}));
    plan->push_back(make(Kind::event_wait, thread, {beside, event}));
  }
  plan->push_back(make(Kind::launch, thread, {exec, beside}));
  if (captured_too) {
    plan->push_back(make(Kind::event_record, thread, {event, beside}));
    plan->push_back(make(Kind::event_wait, thread, {stream, event}));
  }
  plan->push_back(make(Kind::end, thread, {stream, other}));
  plan->push_back(make(Kind::graph_destroy, thread, {other}));
}

/// What is to be a child of a graph that is built by hand is captured, as what libraries enqueue is.
void Generator::capture_child(std::deque<Step>* plan, int thread, const Body& body, std::vector<int> symbols,
                              int graph) {
  const std::vector<int> streams = live_streams(machine_.thread(thread).device);
  if (streams.empty()) return;
  plan->push_back(make(Kind::graph_destroy, thread, {graph}));
  capture_once(plan, thread, body, symbols, pick(staying_, streams), hipStreamCaptureModeRelaxed, graph);
}

/// The graph inside a node is looked at, or changed: it is a copy of the node's own.
void Generator::change_child(std::deque<Step>* plan, int thread, const Body& body, const std::vector<int>& symbols,
                             int graph, int node) {
  plan->push_back(make(Kind::child_nodes, thread, {graph, node}));
  int index = 0;
  for (const Body::Item& item : body.items) {
    if (item.type != Body::Item::Operation) continue;
    if (staying_.chance(40)) {
      Work work = bound(item.work, symbols, false);
      work.value += 1 + staying_.below(9);
      plan->push_back(make(Kind::child_set, thread, {graph, node, index}, work));
    }
    ++index;
  }
  if (staying_.chance(50)) plan->push_back(make(Kind::child_nodes, thread, {graph, node}));
}

void Generator::by_hand(std::deque<Step>* plan, int thread) {
  const std::vector<int> graphs = free_graphs();
  if (graphs.empty()) {
    plan->push_back(make(Kind::graph_destroy, thread, {random_.below(kGraphs)}));
    return;
  }
  const int device = machine_.thread(thread).device;
  const int graph = pick(random_, graphs), exec = random_.below(kExecs);
  const Body body = random_.chance(70) ? pick(random_, catalogue_) : make_body(random_);
  std::vector<int> symbols = choose_symbols(device);
  const Body& inner = catalogue_[static_cast<std::size_t>(staying_.below(static_cast<int>(catalogue_.size())))];
  const int other = (graph + 1) % kGraphs;
  const int rounds = 1 + random_.below(3);
  for (int round = 0; round < rounds; ++round) {
    plan->push_back(make(Kind::graph_create, thread, {graph}));
    int count = 0;
    for (const Body::Item& item : body.items) {
      if (item.type != Body::Item::Operation) continue;
      const int after = random_.chance(90) ? count - 1 : random_.below(count + 1) - 1;
      plan->push_back(make(Kind::add_node, thread,
                           {graph, after, random_.chance(10) ? random_.below(count + 1) - 1 : -1},
                           bound(item.work, symbols, item.varies)));
      ++count;
    }
    if (random_.chance(10)) plan->push_back(make(Kind::add_child, thread, {graph, count - 1, random_.below(kGraphs)}));
    if (random_.chance(10)) plan->push_back(make(Kind::add_edge, thread, {graph, 0, count - 1}));
    const bool child = staying_.chance(15);
    if (child) {
      capture_child(plan, thread, inner, symbols, other);
      plan->push_back(make(Kind::add_child, thread, {graph, count - 1, other}));
      if (staying_.chance(25)) change_child(plan, thread, inner, symbols, graph, count);
    }
    if (staying_.chance(20)) {
      const int to = staying_.below(count + 1);
      plan->push_back(make(Kind::remove_edge, thread, {graph, to - 1, to}));
    }
    if (staying_.chance(8)) plan->push_back(make(Kind::node_destroy, thread, {graph, staying_.below(count + 1)}));
    if (random_.chance(15)) plan->push_back(make(Kind::list_nodes, thread, {graph}));
    if (random_.chance(70) || round == 0) {
      plan->push_back(make(Kind::exec_destroy, thread, {exec}));
      plan->push_back(make(Kind::instantiate, thread, {exec, graph, random_.below(3)}));
    } else {
      plan->push_back(make(Kind::exec_update, thread, {exec, graph}));
    }
    const int launches = random_.below(3);
    for (int i = 0; i < launches; ++i) plan->push_back(make(Kind::launch, thread, {exec, any_stream(thread)}));
    for (int i = child ? staying_.below(3) : 0; i > 0; --i) {
      capture_child(plan, thread, inner, staying_.chance(50) ? symbols : choose_symbols(device), other);
      plan->push_back(make(Kind::exec_child, thread, {exec, count, other}));
      plan->push_back(make(Kind::launch, thread, {exec, any_stream(thread)}));
    }
    if (random_.chance(50)) {
      const Body::Item& item = pick(random_, body.items);
      plan->push_back(make(Kind::exec_set, thread, {exec, random_.below(count + 1)}, bound(item.work, symbols, true)));
      plan->push_back(make(Kind::launch, thread, {exec, any_stream(thread)}));
    }
    if (random_.chance(70)) plan->push_back(make(Kind::graph_destroy, thread, {graph}));
    if (random_.chance(50)) symbols = choose_symbols(device);
  }
}

/// Changes nodes of a graph or exec that is there.
void Generator::change_nodes(std::deque<Step>* plan, int thread) {
  const int exec = random_.below(kExecs);
  if (!machine_.exec(exec).live) return;
  const int graph = machine_.exec(exec).graph;
  if (graph < 0 || !machine_.graph(graph).live) return;
  plan->push_back(make(Kind::list_nodes, thread, {graph}));
  const std::vector<Node>& nodes = machine_.graph(graph).nodes;
  for (int i = 0; i < 3 && !nodes.empty(); ++i) {
    const int node = random_.below(static_cast<int>(nodes.size()));
    if (!nodes[static_cast<std::size_t>(node)].work) continue;
    Work work = *nodes[static_cast<std::size_t>(node)].work;
    work.value += 1 + random_.below(50);
    if (random_.chance(40)) work.dst = choose_symbols(machine_.graph(graph).device)[0];
    switch (random_.below(5)) {
      case 0:
        plan->push_back(make(Kind::exec_enable, thread, {exec, node, random_.below(2)}));
        break;
      case 1:
        plan->push_back(make(Kind::node_set, thread, {graph, node}, work));
        break;
      case 2:
        plan->push_back(make(Kind::node_values, thread, {graph, node}));
        break;
      default:
        plan->push_back(make(Kind::exec_set, thread, {exec, node}, work));
        break;
    }
    if (random_.chance(60)) plan->push_back(make(Kind::launch, thread, {exec, any_stream(thread)}));
    if (staying_.chance(20)) {
      const bool in_exec = staying_.chance(60);
      plan->push_back(make(in_exec ? Kind::exec_edit : Kind::node_edit, thread,
                           {in_exec ? exec : graph, node, staying_.below(1000)}));
      plan->push_back(make(Kind::launch, thread, {exec, any_stream(thread)}));
    }
    if (staying_.chance(6)) plan->push_back(make(Kind::node_destroy, thread, {graph, node}));
  }
}

// --- what programs seldom do ---

int Generator::free_buffer() const {
  for (int i = kBuffers - 1; i >= 0; --i)
    if (!machine_.buffer(i).live) return i;
  return -1;
}

/// One of the catalogue's bodies, cut to what many rounds of one scene have room for.
Body Generator::short_body() const {
  Body body;
  for (const Body::Item& item : catalogue_.front().items)
    if (item.type == Body::Item::Operation && item.lane == 0 && body.items.size() < 3) body.items.push_back(item);
  if (body.items.empty()) body.items.push_back(catalogue_.front().items.front());
  return body;
}

/// Memory comes and goes while a relaxed capture is open, by a thread that may do that.
void Generator::memory_in_capture(std::deque<Step>* plan, int thread) {
  const std::vector<int> streams = live_streams(machine_.thread(thread).device), graphs = free_graphs();
  const int slot = free_buffer();
  if (streams.empty() || graphs.empty() || slot < 0) return;
  const int origin = pick(special_, streams), graph = pick(special_, graphs), exec = special_.below(kExecs);
  const bool relaxed = special_.chance(85);
  if (relaxed) plan->push_back(make(Kind::capture_mode, thread, {hipStreamCaptureModeRelaxed}));
  const Body body = short_body();
  std::vector<int> symbols = choose_symbols(machine_.thread(thread).device);
  const int rounds = 2 + special_.below(2), by = special_.chance(75) ? thread : (thread + 1) % kThreads;
  for (int round = 0; round < rounds; ++round) {
    plan->push_back(make(Kind::begin, thread, {origin, special_.chance(85) ? hipStreamCaptureModeRelaxed : 0}));
    plan->push_back(make(Kind::work, thread, {origin}, bound(body.items[0].work, symbols, false)));
    plan->push_back(make(Kind::allocate, by, {slot, special_.chance(85) ? 0 : 1, part_ints_, kNull}));
    Work fill = make_work(special_, kSymbols);
    fill.what = special_.chance(50) ? Work::Set : Work::Fill32;
    fill.dst = slot, fill.first = 0, fill.parts = kParts, fill.quarter = 4, fill.form = 0;
    plan->push_back(make(Kind::work, thread, {origin}, fill));
    if (special_.chance(30)) plan->push_back(make(Kind::release, by, {symbols[1], 0, kNull}));
    plan->push_back(make(Kind::end, thread, {origin, graph}));
    plan->push_back(make(Kind::instantiate, thread, {exec, graph, 0}));
    plan->push_back(make(Kind::launch, thread, {exec, origin}));
    if (special_.chance(70)) plan->push_back(make(Kind::read, thread, {slot, 0, kParts}));
    // Now and then it goes while its launch is in flight, and in another capture.
    const bool in_capture = special_.chance(25);
    if (in_capture) plan->push_back(make(Kind::begin, thread, {origin, hipStreamCaptureModeRelaxed}));
    plan->push_back(make(Kind::release, by, {slot, 0, kNull}));
    if (in_capture) {
      plan->push_back(make(Kind::graph_destroy, thread, {(graph + 1) % kGraphs}));
      plan->push_back(make(Kind::end, thread, {origin, (graph + 1) % kGraphs}));
    }
    plan->push_back(make(Kind::exec_destroy, thread, {exec}));
    plan->push_back(make(Kind::graph_destroy, thread, {graph}));
  }
  if (relaxed) plan->push_back(make(Kind::capture_mode, thread, {hipStreamCaptureModeGlobal}));
}

/// Memory that work still reads is freed while a capture is open, and what comes in its place is written at once.
void Generator::memory_in_use(std::deque<Step>* plan, int thread) {
  const std::vector<int> streams = live_streams(machine_.thread(thread).device), graphs = free_graphs();
  const std::vector<int> symbols = choose_symbols(machine_.thread(thread).device);
  if (streams.size() < 2 || graphs.empty() || symbols[0] == symbols[1]) return;
  const int busy = streams[0], other = streams[1], graph = pick(special_, graphs);
  const auto work = [&](Work::What what, int dst, int src) {
    Work made;
    made.what = what;
    made.dst = dst, made.src = src, made.parts = kParts, made.value = special_.below(1000);
    return made;
  };
  plan->push_back(make(Kind::capture_mode, thread, {hipStreamCaptureModeRelaxed}));
  plan->push_back(make(Kind::work, thread, {busy}, work(Work::Fill32, symbols[0], symbols[0])));
  plan->push_back(make(Kind::work, thread, {busy}, work(Work::Fill32, symbols[1], symbols[1])));
  for (int i = 0; i < 4; ++i)
    plan->push_back(make(Kind::work, thread, {busy}, work(Work::Slow, symbols[0], symbols[0])));
  const bool before = special_.chance(30);  // freed before the capture begins
  plan->push_back(make(Kind::work, thread, {busy}, work(Work::Join, symbols[0], symbols[1])));
  if (before) plan->push_back(make(Kind::release, thread, {symbols[1], 0, kNull}));
  plan->push_back(make(Kind::begin, thread, {other, hipStreamCaptureModeRelaxed}));
  if (!before) plan->push_back(make(Kind::release, thread, {symbols[1], 0, kNull}));
  plan->push_back(make(Kind::allocate, thread, {symbols[1], 0, part_ints_, kNull}));
  // Another stream that does not wait for the busy one.
  for (const int stream : streams)
    if (stream != busy && stream != other)
      plan->push_back(make(Kind::work, thread, {stream}, work(Work::Fill32, symbols[1], symbols[1])));
  plan->push_back(make(Kind::end, thread, {other, graph}));
  plan->push_back(make(Kind::graph_destroy, thread, {graph}));
  plan->push_back(make(Kind::work, thread, {other}, work(Work::Fill32, symbols[1], symbols[1])));
  plan->push_back(make(Kind::capture_mode, thread, {hipStreamCaptureModeGlobal}));
  plan->push_back(make(Kind::read, thread, {symbols[0], 0, kParts}));
}

/// Execs are destroyed, and made or updated, while what they were launched for still runs.
void Generator::in_flight(std::deque<Step>* plan, int thread) {
  const std::vector<int> streams = live_streams(machine_.thread(thread).device), graphs = free_graphs();
  if (streams.empty() || graphs.empty()) return;
  const int origin = pick(special_, streams), graph = pick(special_, graphs), exec = special_.below(kExecs);
  const std::vector<int> symbols = choose_symbols(machine_.thread(thread).device);
  Work slow, then;
  slow.what = Work::Slow;
  slow.parts = then.parts = kParts;
  slow.dst = symbols[0], then.dst = symbols[1];
  then.what = special_.chance(70) ? Work::Mix : Work::Set;
  const int rounds = 3 + special_.below(3);
  for (int round = 0; round < rounds; ++round) {
    slow.value = special_.chance(50) ? 5 : special_.below(100);
    then.value = 10 + round;
    plan->push_back(make(Kind::begin, thread, {origin, hipStreamCaptureModeThreadLocal}));
    for (int i = 0; i < 3; ++i) plan->push_back(make(Kind::work, thread, {origin}, slow));
    plan->push_back(make(Kind::work, thread, {origin}, then));
    plan->push_back(make(Kind::end, thread, {origin, graph}));
    if (round == 0 || special_.chance(70)) {
      plan->push_back(make(Kind::exec_destroy, thread, {exec}));
      plan->push_back(make(Kind::instantiate, thread, {exec, graph, 0}));
    } else {
      plan->push_back(make(Kind::exec_update, thread, {exec, graph}));
    }
    plan->push_back(make(Kind::graph_destroy, thread, {graph}));
    plan->push_back(make(Kind::launch, thread, {exec, origin}));
  }
  plan->push_back(make(Kind::read, thread, {symbols[1], 0, kParts}));
}

/// One exec for a loop that only updates it.
void Generator::update_only(std::deque<Step>* plan, int thread) {
  const std::vector<int> streams = live_streams(machine_.thread(thread).device), graphs = free_graphs();
  if (streams.empty() || graphs.empty()) return;
  const int origin = pick(special_, streams), graph = pick(special_, graphs), exec = special_.below(kExecs);
  const Body body = short_body();
  std::vector<int> symbols = choose_symbols(machine_.thread(thread).device);
  const int rounds = 9 + special_.below(5);
  const bool moves = special_.chance(70);
  for (int round = 0; round < rounds; ++round) {
    if (moves && special_.chance(80)) symbols = choose_symbols(machine_.thread(thread).device);
    plan->push_back(make(Kind::begin, thread, {origin, hipStreamCaptureModeThreadLocal}));
    for (const Body::Item& item : body.items)
      plan->push_back(make(Kind::work, thread, {origin}, bound(item.work, symbols, special_.chance(40))));
    plan->push_back(make(Kind::end, thread, {origin, graph}));
    if (round == 0) plan->push_back(make(Kind::exec_destroy, thread, {exec}));
    plan->push_back(round == 0 ? make(Kind::instantiate, thread, {exec, graph, 0})
                               : make(Kind::exec_update, thread, {exec, graph}));
    plan->push_back(make(Kind::graph_destroy, thread, {graph}));
    if (special_.chance(35)) plan->push_back(make(Kind::launch, thread, {exec, origin}));
  }
  plan->push_back(make(Kind::launch, thread, {exec, origin}));
}

/// The same, node by node.
void Generator::set_only(std::deque<Step>* plan, int thread) {
  const std::vector<int> streams = live_streams(machine_.thread(thread).device), graphs = free_graphs();
  if (streams.empty() || graphs.empty()) return;
  const int origin = pick(special_, streams), graph = pick(special_, graphs), exec = special_.below(kExecs);
  const Body body = short_body();
  std::vector<int> symbols = choose_symbols(machine_.thread(thread).device);
  plan->push_back(make(Kind::graph_create, thread, {graph}));
  for (int i = 0; i < static_cast<int>(body.items.size()); ++i)
    plan->push_back(make(Kind::add_node, thread, {graph, i - 1, -1},
                         bound(body.items[static_cast<std::size_t>(i)].work, symbols, false)));
  plan->push_back(make(Kind::exec_destroy, thread, {exec}));
  plan->push_back(make(Kind::instantiate, thread, {exec, graph, 0}));
  const int rounds = 10 + special_.below(10);
  for (int round = 0; round < rounds; ++round) {
    if (special_.chance(40)) symbols = choose_symbols(machine_.thread(thread).device);
    const int node = special_.below(static_cast<int>(body.items.size()));
    Work work = bound(body.items[static_cast<std::size_t>(node)].work, symbols, false);
    if (special_.chance(60)) work.value += 1 + special_.below(9);
    plan->push_back(make(Kind::exec_set, thread, {exec, node}, work));
    if (special_.chance(30)) plan->push_back(make(Kind::launch, thread, {exec, origin}));
  }
  plan->push_back(make(Kind::launch, thread, {exec, origin}));
}

/// Memory of the program leaves the process, and a graph has a kernel that reads it by an address nobody sees.
void Generator::exported_memory(std::deque<Step>* plan, int thread) {
  const std::vector<int> streams = live_streams(machine_.thread(thread).device), graphs = free_graphs();
  const std::vector<int> symbols = choose_symbols(machine_.thread(thread).device);
  if (streams.empty() || graphs.empty() || symbols[0] == symbols[1]) return;
  const int origin = pick(special_, streams), graph = pick(special_, graphs), exec = special_.below(kExecs);
  const Step leave = make(Kind::export_memory, thread, {symbols[0]});
  const bool late = special_.chance(40);  // behind its graph's instantiate
  if (!late) plan->push_back(leave);
  Work first = make_work(special_, kSymbols);
  first.what = special_.chance(50) ? Work::Set : Work::Mix;
  first.dst = symbols[0], first.first = 0, first.parts = kParts, first.quarter = 4, first.form = special_.below(8);
  Work peer = first;
  peer.what = Work::Peer;
  peer.dst = symbols[1], peer.src = symbols[0], peer.src_first = 0;
  const int rounds = 2 + special_.below(2);
  for (int round = 0; round < rounds; ++round) {
    plan->push_back(make(Kind::begin, thread, {origin, hipStreamCaptureModeThreadLocal}));
    plan->push_back(make(Kind::work, thread, {origin}, first));
    if (!late || round > 0) plan->push_back(make(Kind::work, thread, {origin}, peer));
    plan->push_back(make(Kind::end, thread, {origin, graph}));
    plan->push_back(make(Kind::exec_destroy, thread, {exec}));
    plan->push_back(make(Kind::instantiate, thread, {exec, graph, 0}));
    if (late && round == 0) plan->push_back(leave);
    plan->push_back(make(Kind::graph_destroy, thread, {graph}));
    plan->push_back(make(Kind::launch, thread, {exec, origin}));
    // What reads as another process would, behind the launch and at once.
    if (special_.chance(50)) plan->push_back(make(Kind::work, thread, {origin}, peer));
    plan->push_back(make(Kind::read, thread, {symbols[1], 0, kParts}));
    first.value += special_.chance(40);
  }
  if (special_.chance(40)) plan->push_back(make(Kind::release, thread, {symbols[0], 0, kNull}));
}

/// A module comes, its kernels are captured, it goes, and another one comes, perhaps with the same handles.
void Generator::other_code(std::deque<Step>* plan, int thread) {
  const int slot = special_.below(kModules), device = machine_.thread(thread).device;
  const std::vector<int> streams = live_streams(device), graphs = free_graphs();
  if (streams.empty() || graphs.empty()) return;
  const int origin = pick(special_, streams), graph = pick(special_, graphs), exec = special_.below(kExecs);
  const std::vector<int> symbols = choose_symbols(device);
  Work work = make_work(special_, kSymbols);
  work.what = Work::Mix;
  work.dst = symbols[0], work.src = symbols[1], work.quarter = 4;
  work.form = special_.below(8) + Work::kModule * (slot + 1);
  const int rounds = 2 + special_.below(3);
  for (int round = 0; round < rounds; ++round) {
    if (machine_.module(slot).live || round > 0) {
      if (special_.chance(80)) {
        plan->push_back(make(Kind::device_sync, thread, {}));
        plan->push_back(make(Kind::module_unload, thread, {slot}));
      }
    }
    plan->push_back(make(Kind::module_load, thread, {slot, special_.below(2)}));
    plan->push_back(make(Kind::begin, thread, {origin, hipStreamCaptureModeRelaxed}));
    plan->push_back(make(Kind::work, thread, {origin}, work));
    plan->push_back(make(Kind::end, thread, {origin, graph}));
    plan->push_back(make(Kind::exec_destroy, thread, {exec}));
    plan->push_back(make(Kind::instantiate, thread, {exec, graph, 0}));
    if (special_.chance(50)) plan->push_back(make(Kind::list_nodes, thread, {graph}));
    plan->push_back(make(Kind::launch, thread, {exec, origin}));
    if (special_.chance(50)) plan->push_back(make(Kind::read, thread, {symbols[0], 0, kParts}));
    plan->push_back(make(Kind::graph_destroy, thread, {graph}));
  }
}

/// Launches with dynamic shared memory, captured before and after the most of it is set.
void Generator::limited_launches(std::deque<Step>* plan, int thread) {
  constexpr std::int64_t kLimits[] = {0, 64, 128, 1 << 16};
  const std::vector<int> streams = live_streams(machine_.thread(thread).device), graphs = free_graphs();
  if (streams.empty() || graphs.empty()) return;
  const int origin = pick(special_, streams), graph = pick(special_, graphs), exec = special_.below(kExecs);
  const std::vector<int> symbols = choose_symbols(machine_.thread(thread).device);
  Work work = make_work(special_, kSymbols);
  work.what = Work::Shared;
  work.dst = symbols[0], work.quarter = 4;
  work.form = special_.below(8);
  const bool stub = special_.chance(50);
  if (stub) work.form |= Work::kStub;
  const int rounds = 2 + special_.below(3);
  for (int round = 0; round < rounds; ++round) {
    plan->push_back(make(Kind::begin, thread, {origin, hipStreamCaptureModeThreadLocal}));
    plan->push_back(make(Kind::work, thread, {origin}, work));
    plan->push_back(make(Kind::end, thread, {origin, graph}));
    plan->push_back(make(Kind::exec_destroy, thread, {exec}));
    plan->push_back(make(Kind::instantiate, thread, {exec, graph, 0}));
    plan->push_back(make(Kind::launch, thread, {exec, origin}));
    plan->push_back(make(Kind::graph_destroy, thread, {graph}));
    const int what = special_.chance(80) ? static_cast<int>(Work::Shared) : special_.below(Work::Nothing);
    plan->push_back(
        make(Kind::attribute, thread, {what, kLimits[special_.below(4)], special_.chance(80) ? !stub : stub}));
  }
}

/// A thread ends while its own stream captures, with streams of others in it; they go on to other things.
void Generator::ending_thread(std::deque<Step>* plan, int thread) {
  const int ends = 1 + special_.below(kThreads - 1), event = special_.below(3);
  const std::vector<int> streams = live_streams(machine_.thread(thread).device);
  if (ends == thread || streams.size() < 2) return;
  const int beside = special_.chance(60) ? streams[0] : static_cast<int>(kPerThread);
  const std::vector<int> symbols = choose_symbols(machine_.thread(thread).device);
  const Body& body = pick(special_, catalogue_);
  const auto captured = [&](int symbols_from) {
    const std::vector<int> graphs = free_graphs();
    if (graphs.empty()) return;
    std::vector<int> used(symbols.begin() + symbols_from, symbols.end());
    const int graph = graphs[0], exec = special_.below(kExecs);
    exactly_ = true;
    capture_once(plan, thread, body, used, streams.back(), hipStreamCaptureModeRelaxed, graph);
    plan->push_back(make(Kind::exec_destroy, thread, {exec}));
    plan->push_back(make(Kind::instantiate, thread, {exec, graph, 0}));
    if (special_.chance(30)) plan->push_back(make(Kind::list_nodes, thread, {graph}));
    plan->push_back(make(Kind::launch, thread, {exec, streams.back()}));
    plan->push_back(make(Kind::graph_destroy, thread, {graph}));
  };
  captured(0);
  plan->push_back(make(Kind::begin, ends, {kPerThread, hipStreamCaptureModeRelaxed}));
  plan->push_back(make(Kind::event_record, ends, {event, kPerThread}));
  plan->push_back(make(Kind::event_wait, thread, {beside, event}));
  if (special_.chance(70))
    plan->push_back(make(Kind::work, thread, {beside}, bound(body.items[0].work, symbols, false)));
  if (special_.chance(30)) plan->push_back(make(Kind::event_record, thread, {event, beside}));
  plan->push_back(make(Kind::end_thread, ends, {}));
  plan->push_back(make(Kind::capture_status, thread, {beside}));
  if (special_.chance(70)) {
    plan->push_back(make(Kind::event_record, thread, {event, beside}));
    plan->push_back(make(Kind::event_wait, thread, {pick(special_, streams), event}));
  }
  captured(special_.below(2));
}

void Generator::special(std::deque<Step>* plan, int thread) {
  if (machine_.features().exports && special_.chance(35)) return exported_memory(plan, thread);
  switch (special_.below(9)) {
    case 5:
      return ending_thread(plan, thread);
    case 6:
      return memory_in_use(plan, thread);
    case 7:
      return in_flight(plan, thread);
    case 0:
      return memory_in_capture(plan, thread);
    case 1:
      return update_only(plan, thread);
    case 2:
      return set_only(plan, thread);
    case 3:
      return exported_memory(plan, thread);
    case 4:
      return other_code(plan, thread);
    default:
      return limited_launches(plan, thread);
  }
}

void Generator::churn(std::deque<Step>* plan, int thread) {
  const int count = 1 + random_.below(3);
  for (int i = 0; i < count; ++i) {
    const int slot = random_.below(kBuffers);
    const bool asked = special_.chance(25);
    if (asked && machine_.buffer(slot).live) plan->push_back(make(Kind::attributes, thread, {slot, 0}));
    if (machine_.buffer(slot).live && machine_.features().inner_frees && special_.chance(20))
      plan->push_back(make(Kind::release_inside, thread, {slot, 4 + special_.below(200), special_.chance(30)}));
    if (machine_.buffer(slot).live)
      plan->push_back(make(Kind::release, thread, {slot, random_.chance(20), any_stream(thread)}));
    if (random_.chance(15)) part_ints_ = kSizes[random_.below(4)];
    const int kind = random_.chance(70) ? 0 : random_.below(static_cast<int>(Memory::kCount));
    const std::int64_t ints = random_.chance(85) ? part_ints_ : random_.chance(20) ? 40000 : kSizes[random_.below(4)];
    plan->push_back(make(Kind::allocate, thread, {slot, kind, ints, any_stream(thread)}));
    if (asked) plan->push_back(make(Kind::attributes, thread, {slot, 0}));
    if (random_.chance(30)) plan->push_back(make(Kind::mem_info, thread, {}));
  }
}

void Generator::eager(std::deque<Step>* plan, int thread) {
  const std::vector<int> symbols = choose_symbols(machine_.thread(thread).device);
  const int count = 1 + random_.below(4);
  for (int i = 0; i < count; ++i)
    plan->push_back(make(Kind::work, thread, {any_stream(thread)}, bound(make_work(random_, kSymbols), symbols, true)));
  if (random_.chance(30)) {
    Work work = bound(make_work(random_, kSymbols), symbols, true);
    work.what = Work::Copy;
    plan->push_back(make(Kind::copy_sync, thread, {}, work));
  }
  if (random_.chance(30))
    plan->push_back(make(Kind::host_write, thread, {4, random_.below(kParts), random_.below(100)}));
  if (random_.chance(50)) plan->push_back(make(Kind::read, thread, {symbols[0], 0, kParts}));
}

void Generator::wait_somewhere(std::deque<Step>* plan, int thread) {
  const int event = random_.below(3);
  switch (random_.below(5)) {
    case 0:
      plan->push_back(make(Kind::device_sync, thread, {}));
      break;
    case 1:
      plan->push_back(make(Kind::event_record, thread, {event, any_stream(thread)}));
      plan->push_back(make(Kind::event_sync, thread, {event}));
      break;
    case 2:
      plan->push_back(make(Kind::event_record, thread, {event, any_stream(thread)}));
      plan->push_back(make(Kind::event_wait, thread, {any_stream(thread), event}));
      break;
    default:
      plan->push_back(make(Kind::stream_sync, thread, {any_stream(thread)}));
  }
}

/// A call that has nothing to do with its neighbours.
Step Generator::stray(int thread) {
  const int slot = random_.below(kBuffers);
  switch (special_.below(16)) {
    case 0:
      return make(Kind::release_inside, thread, {slot, 1 + special_.below(200), special_.chance(30)});
    case 1:
      return make(Kind::use_gone, thread, {special_.below(16), special_.below(20)});
    case 2:
      return make(Kind::export_memory, thread, {slot});
    case 3: {
      const int module = special_.below(kModules);
      if (machine_.module(module).live) return make(Kind::module_unload, thread, {module});
      return make(Kind::module_load, thread, {module, special_.below(2)});
    }
    default:
      break;
  }
  switch (random_.below(machine_.capturing() ? 30 : 24)) {
    case 0:
      return make(Kind::last_error, thread, {});
    case 1:
      return make(Kind::peek_error, thread, {});
    case 2:
    case 3:
      return make(Kind::address_range, thread, {slot, random_.below(64)});
    case 4:
      return make(Kind::attributes, thread, {slot, random_.below(64)});
    case 5:
      return make(Kind::mem_info, thread, {});
    case 6:
    case 7:
    case 8:
      return make(Kind::bad_call, thread, {random_.below(32), random_.below(40)});
    case 9:
      return make(Kind::stream_query, thread, {any_stream(thread)});
    case 10:
      return make(Kind::event_query, thread, {random_.below(kEvents)});
    case 11:
      return make(Kind::set_device, thread, {random_.below(machine_.devices())});
    case 12:
      return make(Kind::capture_mode, thread, {random_.below(3)});
    case 13:
      return make(Kind::end_thread, 1 + random_.below(kThreads - 1), {});
    case 14: {
      const int stream = random_.below(kStreams);
      if (machine_.stream_slot(stream).live) return make(Kind::stream_destroy, thread, {stream});
      return make(Kind::stream_create, thread, {stream, random_.chance(60)});
    }
    case 15: {
      const int event = random_.below(kEvents - 1);
      return make(machine_.event(event).live ? Kind::event_destroy : Kind::event_create, thread, {event});
    }
    case 16: {
      if (!machine_.features().inject) return make(Kind::last_error, thread, {});
      return make(Kind::fail, thread, {1 + random_.below(40)});
    }
    case 17:
      return make(Kind::event_record, thread, {random_.below(kEvents), any_stream(thread)});
    case 18:
      return make(Kind::event_wait, thread, {any_stream(thread), random_.below(kEvents)});
    case 19: {
      Work work = make_work(random_, kSymbols);
      work.form = Work::kBad + random_.below(4);
      return make(Kind::work, thread, {random_.chance(50) ? random_.below(kStreams) : any_stream(thread)},
                  bound(work, choose_symbols(machine_.thread(thread).device), false));
    }
    case 20:
    case 21:
      return make(Kind::exec_destroy, thread, {random_.below(kExecs)});
    case 22:
      return make(Kind::graph_destroy, thread, {random_.below(kGraphs)});
    case 23:
      return make(Kind::device_sync, thread, {});
    case 24:
      return make(Kind::capture_status, thread, {random_.below(kStreams)});
    case 25:
      return make(Kind::allocate, thread, {slot, 0, part_ints_, any_stream(thread)});
    case 26:
      return make(Kind::release, thread, {slot, random_.chance(20), any_stream(thread)});
    case 27:
      return make(Kind::read, thread, {slot, 0, kParts});
    case 28:
      return make(Kind::capture_nodes, thread, {random_.below(kStreams)});
    default:
      return make(Kind::stream_sync, thread, {random_.below(kStreams)});
  }
}

void Generator::scene(std::deque<Step>* plan, int thread) {
  const int kind = random_.below(100);
  if (machine_.devices() > 1 && random_.chance(10))
    plan->push_back(make(Kind::set_device, thread, {random_.below(machine_.devices())}));
  if (special_.chance(machine_.features().exports ? 15 : 10)) return special(plan, thread);
  if (kind < 55) {
    capture(plan, thread);
  } else if (kind < 67) {
    by_hand(plan, thread);
  } else if (kind < 78) {
    change_nodes(plan, thread);
  } else if (kind < 90) {
    churn(plan, thread);
  } else if (kind < 98) {
    eager(plan, thread);
  } else {
    wait_somewhere(plan, thread);
  }
}

/// Something that may make the step well-defined, into the plan before it. False: there is nothing.
bool Generator::prepare(const Step& step, std::deque<Step>* plan) {
  Machine::Obstacle obstacle;
  const auto& n = step.number;
  if (step.kind == Kind::launch) {
    if (n[0] < 0 || n[0] >= kExecs || !machine_.exec(static_cast<int>(n[0])).live) return false;
    if (machine_.launchable(machine_.exec(static_cast<int>(n[0])), machine_.stream(n[1], step.thread), &obstacle))
      return false;
  } else if (step.kind == Kind::work || step.kind == Kind::copy_sync) {
    Stream& on = machine_.stream(step.kind == Kind::work ? n[0] : kNull, step.thread);
    if (!on.live || on.capture) return false;
    (void)machine_.ready(machine_.accesses(step.work()), machine_.clock_of_next(on), &obstacle);
  } else if (step.kind == Kind::read || step.kind == Kind::release || step.kind == Kind::release_inside ||
             step.kind == Kind::host_write) {
    if (n[0] < 0 || n[0] >= kBuffers || !machine_.buffer(n[0]).live || machine_.capturing()) return false;
    if (step.kind == Kind::read) {
      (void)machine_.ready({{n[0], machine_.buffer(n[0]).generation, 0, kParts, false, false}},
                           machine_.clock_of_next(machine_.stream(kNull, step.thread)), &obstacle);
    }
    if (!obstacle.unwritten) obstacle.race = true;
  } else {
    return false;
  }
  if (obstacle.unwritten) {
    const Buffer& buffer = machine_.buffer(obstacle.buffer);
    if (buffer.on_host()) {
      plan->push_front(make(Kind::host_write, step.thread, {obstacle.buffer, obstacle.part, random_.below(1000)}));
      return true;
    }
    Work work;
    work.what = random_.chance(70) ? Work::Fill32 : Work::Set;
    work.dst = obstacle.buffer;
    work.first = random_.chance(60) ? 0 : obstacle.part;
    work.parts = work.first == 0 && obstacle.part != 0 ? obstacle.part + 1 : kParts - work.first;
    work.value = random_.below(1000);
    const std::vector<int> streams = live_streams(buffer.device);
    if (buffer.device != machine_.thread(step.thread).device && streams.empty()) return false;
    const int on = step.kind == Kind::launch && n[1] < kStreams && random_.chance(60) ? static_cast<int>(n[1])
                   : streams.empty()                                                  ? kNull
                                                                                      : pick(random_, streams);
    plan->push_front(make(Kind::work, step.thread, {on}, work));
    return true;
  }
  if (!obstacle.race) return false;
  const int other = machine_.stream_of_agent(obstacle.agent);
  const bool to_stream = step.kind == Kind::launch || step.kind == Kind::work;
  const int target = step.kind == Kind::launch ? static_cast<int>(n[1]) : static_cast<int>(n[0]);
  if (other >= 0 && to_stream && !machine_.stream_slot(other).capture && (machine_.capturing() || random_.chance(50))) {
    const int event = 3 + random_.below(2);
    plan->push_front(make(Kind::event_wait, step.thread, {target, event}));
    plan->push_front(make(Kind::event_record, step.thread, {event, other}));
    if (!machine_.event(event).live) plan->push_front(make(Kind::event_create, step.thread, {event}));
    return true;
  }
  if (machine_.capturing()) return false;
  if (other >= 0 && random_.chance(50)) {
    plan->push_front(make(Kind::stream_sync, step.thread, {other}));
  } else {
    for (int device = 0; device < machine_.devices(); ++device) {
      plan->push_front(make(Kind::device_sync, step.thread, {}));
      plan->push_front(make(Kind::set_device, step.thread, {device}));
    }
  }
  return true;
}

bool Generator::next(Step* step) {
  for (int rejected = 0; rejected < 400; ++rejected) {
    if (left_ <= 0) return false;
    if (random_.chance(7)) {
      *step = stray(random_.chance(70) ? 0 : random_.below(kThreads));
      if (machine_.allowed(*step)) {
        --left_;
        return true;
      }
      continue;
    }
    std::deque<Step>* plan = &plan_;
    if (!other_.empty() && random_.chance(50)) plan = &other_;
    if (plan_.empty()) {
      plan = &plan_;
      scene(&plan_, random_.chance(75) ? 0 : random_.below(kThreads));
      if (other_.empty() && random_.chance(15)) scene(&other_, 1 + random_.below(kThreads - 1));
      tries_ = 0;
      if (plan_.empty()) continue;
    }
    *step = plan->front();
    if (machine_.allowed(*step)) {
      plan->pop_front();
      tries_ = 0;
      --left_;
      return true;
    }
    if (tries_ < kTries && prepare(*step, plan)) {
      ++tries_;
      continue;
    }
    plan->pop_front();
  }
  return false;
}

}  // namespace property
