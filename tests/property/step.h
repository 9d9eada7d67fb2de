// step.h: a random program is a list of steps; each is one call of the program (or a few that belong together), made by
// one of its threads. Steps name objects by the slot they are in, so that a list from which steps were taken out is
// still a program: a step that has no meaning where it stands is left out when it is its turn (machine.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace property {

inline constexpr int kThreads = 3, kStreams = 6, kEvents = 6, kBuffers = 8, kGraphs = 5, kExecs = 5, kParts = 4,
                     kModules = 2;
inline constexpr int kNull = 6, kPerThread = 7, kLegacy = 8;  ///< stream numbers beside the slots

enum class Kind : std::uint8_t {
#define STEP(name, numbers) name,
#define WORK ""
#include "steps.def"
#undef STEP
#undef WORK
};

/// One operation, captured, enqueued or put into a graph by hand.
struct Work {
  enum What : std::int64_t {
    Mix,
    Set,
    Join,
    Padded,
    Inner,
    Shared,
    Wide,
    Slow,  ///< runs long enough to be in flight when the next calls come
    Nothing,
    Copy,
    Copy2D,
    Fill8,
    Fill16,
    Fill32,
    Fill2D,
    Host,
    Peer,  ///< reads memory by an address that nobody sees in its arguments, as kernels of communication libraries do
    kCount
  };
  std::int64_t what = Mix, dst = 0, first = 0, parts = 1, src = 0, src_first = 0;
  std::int64_t quarter = 4;  ///< how much of the parts is touched: quarters, 0 to 4
  std::int64_t value = 0;
  std::int64_t form = 0;  ///< how it is called; from kBad on: with arguments HIP refuses

  static constexpr std::int64_t kBad = 16;
  static constexpr std::int64_t kStub = 64;  ///< beside how it is called else: a kernel by its host stub
  static constexpr std::int64_t kModule =
      256;  ///< beside that: the kernel of a module that comes and goes, from slot 0
  bool kernel() const { return what <= Nothing || what == Peer; }
  bool by_stub() const { return (form & kStub) != 0; }
  bool bad() const { return form % kModule >= kBad && !by_stub(); }
  std::int64_t module() const { return form / kModule - 1; }  ///< the slot; -1: none
};

struct Step {
  Kind kind = Kind::mem_info;
  int thread = 0;
  std::array<std::int64_t, 12> number{};

  Work work() const;  ///< of the last nine numbers
};

Step make(Kind kind, int thread, std::vector<std::int64_t> numbers);
Step make(Kind kind, int thread, std::vector<std::int64_t> numbers, const Work& work);

/// One line, `name number=value ... thread=n`; an empty kind of result when it cannot be read.
std::string text_of(const Step& step);
bool parse(const std::string& line, Step* step);

}  // namespace property
