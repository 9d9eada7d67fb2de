// permits.h: the compile permits of this process, for hooks of compile functions and for compiler processes.
//
//   { CompileScope scope({"hiprtc", "source", bytes}); result = next().hiprtcCompileProgram(...); }
//
// The first call of compile_permits() reads the policy and maps the table of permits, as a rule when a compilation
// begins. A compilation inside another one of the same thread rides on it (hipRTC calls comgr). In a program that a
// compiler process has started, one compilation at a time rides on that process's permit. The runtime lets one thread
// at a time into some functions. There `one_at_a_time` makes the others wait before they take a permit, so that they do
// not keep one while they wait (rule 33).
//
// Threads: any; a scope is left by the thread that made it, by return or exception. A forked child holds nothing.
#pragma once

#include <string_view>

#include "policy/policy.h"
#include "shim/compile/permit_wait.h"

namespace graphpool {

/// What makes a compilation's size class: its tool, its kind of input, and the input's size rounded down to a power of
/// eight. Without a tool it is no compilation.
struct Compilation {
  std::string_view tool, kind;
  std::uint64_t input_bytes = 0;
  bool one_at_a_time = false;
};

/// Writes "tool kind 32K" to text; returns its length.
std::size_t class_name(const Compilation& compilation, char* text, std::size_t bytes) noexcept;

/// What the policy says of permits. Finds the surrounding jobserver too, if the policy lets it. One thread at a time.
PermitSettings permit_settings(const Policy& policy) noexcept;

class CompileScope {
 public:
  explicit CompileScope(const Compilation& compilation) noexcept;
  ~CompileScope();
  CompileScope(const CompileScope&) = delete;
  CompileScope& operator=(const CompileScope&) = delete;

 private:
  Permit permit_;
  bool counted_ = false, outermost_ = false, holds_ = false;
  bool alone_ = false;
  std::uint64_t traced_since_ = 0;
};

/// The permit that the calling thread has, or rides on; its holder may have given it back by now. Not held: there is
/// none. That of a compiler process is not told.
Permit permit_of_thread() noexcept;
/// Lets all that the calling thread does ride on this permit, its own or another's, until the permit is given back. Not
/// held: the thread rides no longer.
void ride_in_thread(const Permit& permit) noexcept;
/// Whether the calling thread is in a call that compiles, whatever it holds.
bool inside_compilation() noexcept;
/// Whether the calling thread is in a compilation, or has or rides on a permit, or the process is a compiler with a
/// permit.
bool thread_compiles() noexcept;

/// The permits that this process uses.
struct CompilePermits {
  PermitTable table;
  PermitSettings settings;
  PermitCounters counters;
  Scope scope = Scope::kProcess;
  ParentPermit parent;  ///< of the compiler process that this program was started by
};
/// Returns this process's permits. The first call opens them, and may read the policy. Returns null if permits are
/// switched off, if the policy is unusable, or without memory.
CompilePermits* compile_permits() noexcept;

/// Whether a compilation that begins now is an outermost one, and there are permits. Ask it before a costly look at the
/// class.
bool compilation_would_count() noexcept;

/// Like compile_permits(), but opens nothing: null if they are not open.
const CompilePermits* compile_permits_in_use() noexcept;

/// Notes what the processes of the policy's scope have done so far, because a report tells what they do from now on.
/// Only the first call does so, and none without a report or in the scope of a process. Makes no table. Threads: any.
void note_scope_counts(const Policy& policy) noexcept;

/// Called when this process's permits have been opened. process/engine.cpp defines it: it opens the trace and the
/// report.
void permits_opened(const Policy& policy) noexcept;

/// For the report: what this process did, and what all processes of its scope did since note_scope_counts().
struct CompileReport {
  PermitCounters process;
  Scope scope;
  ScopeCounts counts;
  std::uint32_t peak_in_flight = 0;
  std::uint64_t most_held_bytes = 0, least_headroom_bytes = 0;  ///< as in ScopeFigures
  SizeClass classes[kMostClasses];
  std::uint32_t class_count = 0;
  PermitHolder holders[kMostPermits];  ///< those who compile now
  std::uint32_t holder_count = 0;
};
/// Returns false where this process has not opened its permits and nobody in its scope has compiled since
/// note_scope_counts().
bool read_compile_report(CompileReport& report) noexcept;

}  // namespace graphpool
