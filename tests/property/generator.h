// generator.h: makes up a random program, step by step, from a seed and from what the machine knows so far.
//
// Programs look like programs: they capture sequences again and again, with other buffers, other constants, an
// operation more or less; build graphs by hand; change nodes; let buffers come and go between. Sequences come from a
// catalogue that programs with neighbouring seeds share, so that one process sees them again and again. Between the
// steps of such scenes fall unrelated calls, failing ones too, and now and then a second scene of another thread.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "machine.h"

namespace property {

/// The same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  std::uint64_t next() {
    std::uint64_t value = state_ += 0x9E3779B97F4A7C15u;
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
    value = (value ^ value >> 27) * 0x94D049BB133111EBu;
    return value ^ value >> 31;
  }
  int below(int count) { return count <= 0 ? 0 : static_cast<int>(next() % static_cast<std::uint64_t>(count)); }
  bool chance(int percent) { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

/// A sequence to capture. Its buffers are symbols, its streams lanes; lane 0 begins and ends.
struct Body {
  struct Item {
    enum Type { Operation, Fork, Join, Outside, Status } type = Operation;
    Work work;
    int lane = 0, other = 0;
    bool varies = false;  ///< another constant each time
  };
  std::vector<Item> items;
  int lanes = 1;
  int others_from = -1;  ///< another thread feeds what comes from this item on, always; -1: none
};

class Generator {
 public:
  Generator(std::uint64_t seed, Machine& machine);
  /// The next step, allowed now; false: the program is complete.
  bool next(Step* step);

 private:
  static constexpr int kSymbols = 4;

  Body make_body(Random& random) const;
  Body mutated(const Body& body);
  Work make_work(Random& random, int symbols) const;

  void scene(std::deque<Step>* plan, int thread);
  void capture(std::deque<Step>* plan, int thread);
  void capture_once(std::deque<Step>* plan, int thread, const Body& body, std::vector<int>& symbols, int origin,
                    int mode, int graph);
  void stay(std::deque<Step>* plan, int thread, int exec, int graph, int origin);
  void update_beside_capture(std::deque<Step>* plan, int thread, int exec, int graph, int stream);
  void change_child(std::deque<Step>* plan, int thread, const Body& body, const std::vector<int>& symbols, int graph,
                    int node);
  void capture_child(std::deque<Step>* plan, int thread, const Body& body, std::vector<int> symbols, int graph);
  void by_hand(std::deque<Step>* plan, int thread);
  void change_nodes(std::deque<Step>* plan, int thread);
  void special(std::deque<Step>* plan, int thread);
  void memory_in_capture(std::deque<Step>* plan, int thread);
  void memory_in_use(std::deque<Step>* plan, int thread);
  void in_flight(std::deque<Step>* plan, int thread);
  void update_only(std::deque<Step>* plan, int thread);
  void set_only(std::deque<Step>* plan, int thread);
  void exported_memory(std::deque<Step>* plan, int thread);
  void other_code(std::deque<Step>* plan, int thread);
  void ending_thread(std::deque<Step>* plan, int thread);
  void limited_launches(std::deque<Step>* plan, int thread);
  Body short_body() const;
  int free_buffer() const;
  void churn(std::deque<Step>* plan, int thread);
  void eager(std::deque<Step>* plan, int thread);
  void wait_somewhere(std::deque<Step>* plan, int thread);
  Step stray(int thread);
  bool prepare(const Step& step, std::deque<Step>* plan);

  std::vector<int> choose_symbols(int device);
  std::vector<int> live_streams(int device) const;
  std::vector<int> free_graphs() const;
  int any_stream(int thread);
  Work bound(const Work& work, const std::vector<int>& symbols, bool varies);

  Random random_;
  Random staying_;  ///< its own: programs without stay() and update_beside_capture() do not depend on it
  Random special_;  ///< the same for special()
  Machine& machine_;
  std::vector<Body> catalogue_;
  std::deque<Step> plan_, other_;
  int left_, tries_ = 0;
  std::int64_t part_ints_ = 64;
  int constant_ = 0;
  bool exactly_ = false;  ///< the next sequence with the constants of the body
};

}  // namespace property
