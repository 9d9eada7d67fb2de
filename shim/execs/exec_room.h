// exec_room.h: makes room for execs, where they have a limit of memory (graphs/exec_limit.h). Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

namespace graphpool {

class ExecRoom {
 public:
  /// What is still to be done when a call returns.
  enum class Left : std::uint8_t {
    kNothing,
    kRunning,  ///< there is too much still, of which some runs: it may go later
  };
  /// Before execs of so many bytes are made: others go where there would be more than the limit.
  virtual Left make_room(int device, std::size_t bytes) noexcept = 0;
  /// A later call of the program: what ran before may go now.
  virtual Left trim() noexcept = 0;
  /// Memory has run out on the device (all: -1): whatever can go does. Returns whether there was something.
  virtual bool reclaim(int device) noexcept = 0;

 protected:
  ~ExecRoom() = default;
};

}  // namespace graphpool
