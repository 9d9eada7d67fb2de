// peer_collectives.h: all-reduces of one or two devices of a process, over memory that each reads of the other's. A
// stand-in for RCCL on devices that RCCL does not know.
//
// At each all-reduce the host makes the calls that RCCL 2.27 makes, in a capture and outside. On the device each block
// of the kernel meets the other rank's block of that number: it writes where its input is into memory of the other,
// waits for the other's word, adds the two inputs, and waits until the other has read, too. Blocks count their meetings
// in memory of their device, so that a graph can be launched again. A block that waits too long gives up, and with it
// the rank: from then on it takes its own input for the sum, and waits for nobody.
//
// Threads: each rank is used by one thread at a time; two ranks by one or two. The kernels of all ranks must be able to
// run at the same time: between the launch of one rank's collective and that of the other's nobody may wait for a
// device, nor allocate or free memory, for that may wait.
#pragma once

#include <atomic>

#include "program.h"

namespace peers {

/// Whether the first `count` devices are there and can read each other's memory.
bool reach_each_other(int count);

/// What the host keeps for a captured all-reduce, for as long as its graph lives.
struct Plan;

/// What lies in a device's memory; peer_collectives.cpp has it.
struct Place;
struct Meeting;

class Communicator {
 public:
  /// One rank on its device, which becomes the current one. `patience`: how often a block looks for the other's word.
  Communicator(int device, int patience);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// The rank's device must be the current one, and the program must have destroyed all graphs that have an all-reduce:
  /// waits until the runtime has, too.
  ~Communicator();

  /// Makes each the other's peer; a communicator may be its own, and then doubles.
  static void connect(Communicator& first, Communicator& second);

  /// out[i] = the sum over all ranks of in[i]; the two must be different memory, and `count` must be that of the
  /// others.
  void all_reduce(float* out, const float* in, int count, hipStream_t stream);

  /// Whether a block of this rank gave up; waits for the stream.
  bool gave_up(hipStream_t stream) const;

 private:
  void begin_captured(hipStream_t stream, unsigned long long capture);
  void end_captured(hipStream_t stream);
  static void retain(hipGraph_t graph, Plan* plan);
  static void drop(void* plan);
  void reclaim();

  const int device_;
  const program::Kernels kernels_;
  const hipFunction_t kernel_;
  Place* place_ = nullptr;        ///< of the device
  Meeting* meetings_ = nullptr;   ///< of the device, one a block
  hipEvent_t scratch_ = nullptr;  ///< recorded and waited for at once
  hipStream_t order_ = nullptr;   ///< keeps all-reduces of different streams in order
  hipStream_t captured_order_ = nullptr;
  unsigned long long capture_ = 0;  ///< that captured_order_ is part of
  int plans_ = 0;                   ///< that are not reclaimed yet
  /// Plans that no graph holds any more: a runtime may say so on a thread of its own.
  std::atomic<Plan*> dropped_{nullptr};
};

}  // namespace peers
