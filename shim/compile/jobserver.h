// jobserver.h: make's jobserver as a second budget: a compilation beside the first of a job also takes a token of it.
//
// The protocol: whatever a client starts (a recipe of make) is a job and may run one thing at once; for each more it
// reads one byte from the server's pipe, or fifo, and writes the same byte back. Which compilation of a job is the one
// that may always run is in the table of permits, and so comes back when its holder dies; so does a byte that was read:
// the table knows it, and the next compilation of that server uses it. Only a process killed between the read and the
// entry in the table, or the last of its server, loses one, as the protocol does.
//
// A server named in MAKEFLAGS is used only while it is there: a pipe by its two descriptors, which must be the two ends
// of one pipe that was open when the process started and that make, if an ancestor is make, has too (make closes them
// for recipes that are no sub-makes, and their numbers may be anything by now); a fifo by its path. It is opened anew
// for each byte: nothing is kept open, and the flags of descriptors that are shared with make stay.
//
// Pool threads (pool_threads.h) take none: they would keep them from make. Threads: any, after
// remember_inherited_jobserver(). A forked child is of the same job.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "shim/compile/permit_table.h"

namespace graphpool {

/// What MAKEFLAGS says. Without a server the texts are empty.
struct MakeFlags {
  std::string_view option;  ///< the whole word, such as "--jobserver-auth=3,4"
  std::string_view auth;    ///< of it, "R,W" or "fifo:PATH"
  std::string_view fifo;    ///< the path
  int read_end = -1, write_end = -1;
  std::uint32_t jobs = 0;  ///< -jN; 0: not said
};
MakeFlags parse_make_flags(const char* text) noexcept;

/// Notes which pipe the numbers in MAKEFLAGS mean. Before main: later they may be the program's own descriptors.
void remember_inherited_jobserver() noexcept;

class JobTokens {
 public:
  /// Finds the server and this process's job. False: there is none to be used.
  bool open(const Machine& machine) noexcept;

  [[nodiscard]] const TokenServer& server() const noexcept { return server_; }
  [[nodiscard]] const ProcessName& job() const noexcept { return job_; }
  [[nodiscard]] std::uint32_t jobs() const noexcept { return jobs_; }

  /// Reads a byte if there is one; never waits.
  std::optional<std::uint8_t> take() noexcept;
  /// False: the server cannot be reached from here any more.
  bool put(std::uint8_t byte) noexcept;

 private:
  int open_server() noexcept;

  TokenServer server_;
  ProcessName job_;
  std::uint32_t jobs_ = 0;
  int descriptors_[2] = {-1, -1};
  pid_t client_ = 0;  ///< who started the job; has the pipe
  char fifo_[256] = "";
};

/// For a process that is to offer a jobserver of its own to its children: a fifo of `jobs` - 1 bytes, named in
/// MAKEFLAGS. Before main. False: it cannot be made. The file goes with the process; those of killed processes go with
/// the next.
bool offer_jobserver(const Machine& machine, std::uint32_t jobs) noexcept;

/// In a make that does not know fifos (before 4.4): takes an offered one out of MAKEFLAGS, over which it would stop.
void hide_offered_jobserver() noexcept;

/// Whether a file has this text somewhere. Reads it in pieces; a file that cannot be read has not, nor has what is no
/// regular file: reading that may wait, never end, or take it from the host.
bool file_holds(const char* path, std::string_view text) noexcept;

}  // namespace graphpool
