// wave.h: a wave of 64 lanes: its registers, and the workgroup it belongs to.
#pragma once

#include <cstring>
#include <vector>

#include "instruction.h"
#include "types.h"

namespace hsa_cpu {
class Guard;
}

namespace hsa_cpu::gcn {

// Scalar registers, by their number in encodings.
constexpr u32 kFlatScratch = 102, kVcc = 106, kM0 = 124, kExec = 126, kScalars = 128;
// The second half of the vector registers are accumulation registers (gfx908, gfx90a).
constexpr u32 kVectors = 512, kAccumulators = 256;

// High words of the flat addresses of a workgroup's and of a lane's own memory; queues.cpp tells the runtime the same.
constexpr u32 kGroupApertureHigh = 0x10000, kPrivateApertureHigh = 0x20000;

struct Workgroup {
  std::vector<char> lds;
  std::vector<char> scratch;
  u32 alive = 0;       ///< waves that have not ended
  u32 at_barrier = 0;  ///< waves that wait at s_barrier
};

enum class State : u8 { Running, AtBarrier, AtGridBarrier, Done, Trapped };

struct Image;

struct alignas(64) Wave {
  u32 v[kVectors][kLanes];
  u32 s[kScalars];
  /// The execution mask as 0 or all ones a lane, and the mask this was made of.
  u32 active[kLanes];
  u64 active_of;
  const Instruction* at;  ///< the next instruction
  const Image* image;     ///< that `at` is in
  Workgroup* group;
  char* scratch;  ///< of lane 0; the other lanes' follow
  u32 scratch_bytes;
  u32 mode;           ///< register MODE: rounding and denormals
  bool usual_floats;  ///< mode asks for nothing but IEEE with denormals, to nearest
  bool scc;
  State state;
  i32 budget;  ///< instructions left in this turn
  const char* kernel;
  Guard* guard;  ///< checked mode: answers what the dispatch may touch; null without checked mode

  u64 pair(u32 index) const {
    u64 value;
    std::memcpy(&value, &s[index], sizeof value);
    return value;
  }
  void set_pair(u32 index, u64 value) { std::memcpy(&s[index], &value, sizeof value); }
  u64 exec() const { return pair(kExec); }
  void stop(State why) {
    state = why;
    budget = 0;
  }
  void set_mode(u32 bits) {
    mode = bits;
    usual_floats = (bits & 0xff) == 0xf0;
  }
};

/// The value of a scalar operand; `type` says how a 64-bit one widens.
u32 scalar32(const Wave& wave, const Operand& operand);
u64 scalar64(const Wave& wave, const Operand& operand);

/// Goes on at another address.
void jump(Wave& wave, u64 address);

/// Runs until the wave's turn ends.
void run_turn(Wave& wave, i32 instructions);

/// Ends the process with the kernel, the instruction and its address.
[[noreturn]] void give_up(const Wave& wave, const Instruction& instruction, const char* why);

}  // namespace hsa_cpu::gcn
