// jobserver.h: make's jobserver as a second budget: a compilation beside the first of a job also takes a token of it.
//
// The protocol: a job is what a client starts, such as a recipe of make. A job may run one thing. For each more it
// reads one byte from the server's pipe, or fifo, and writes the same byte back when that thing has ended. The table of
// permits says which compilation runs without a byte, and which bytes were read. So both come back when their holder
// dies: the next compilation of that server uses the byte. A byte is lost, as with other clients, where a process is
// killed between the read and the entry in the table, and where no compilation of the server follows.
//
// MAKEFLAGS names a pipe by two descriptors, or a fifo by its path. make closes the descriptors for recipes that are no
// sub-makes, and the program may have opened something else under their numbers. So a pipe is used only if both are
// ends of one pipe, which was open when the process started, and which make has open too if make started the job. The
// server is opened anew for each byte: no descriptor stays open, and the flags of those that are shared with make stay.
//
// Pool threads (pool_threads.h) take no byte: they could keep it from make as long as their pool lives. Threads: any,
// after remember_inherited_jobserver(). A forked child is of the same job.
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
  /// Finds the server and this process's job. Returns false where there is no server that can be used.
  bool open(const Machine& machine) noexcept;

  [[nodiscard]] const TokenServer& server() const noexcept { return server_; }
  [[nodiscard]] const ProcessName& job() const noexcept { return job_; }
  [[nodiscard]] std::uint32_t jobs() const noexcept { return jobs_; }

  /// Reads a byte if there is one; never waits.
  std::optional<std::uint8_t> take() noexcept;
  /// Returns false where the byte cannot be written: the server cannot be reached from here any more, or its pipe is
  /// full.
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

/// Offers a jobserver to the children of this process: makes a fifo with `jobs` - 1 bytes in it, and names it in
/// MAKEFLAGS. Call it before main. Returns false where it cannot be made, or where MAKEFLAGS names another server or
/// holds variables. The file is removed when the process ends; that of a killed process, when the next one makes its
/// own.
bool offer_jobserver(const Machine& machine, std::uint32_t jobs) noexcept;

/// Takes an offered fifo out of MAKEFLAGS in a make that does not know fifos (before 4.4) and would stop with an error.
void hide_offered_jobserver() noexcept;

/// Whether a file has this text somewhere. Returns false for a file that cannot be read, and for what is no regular
/// file: reading that may wait, may never end, or may take what the host wants to read.
bool file_holds(const char* path, std::string_view text) noexcept;

}  // namespace graphpool
