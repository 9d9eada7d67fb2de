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
    kRunning,  ///< there is too much still, and some of it runs: that may go later
  };
  /// Gives others back if execs of so many more bytes would pass the limit. Called before they are made.
  virtual Left make_room(int device, std::size_t bytes) noexcept = 0;
  /// Gives back, in a later call of the program, what is beyond the limit and ran before.
  virtual Left trim() noexcept = 0;
  /// Gives back all that can go, because memory has run out on the device (all: -1). Returns whether there was any.
  virtual bool reclaim(int device) noexcept = 0;

 protected:
  ~ExecRoom() = default;
};

}  // namespace graphpool
