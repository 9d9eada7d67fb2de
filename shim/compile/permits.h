// permits.h: the compile permits of this process, for hooks of compile functions and for compiler processes.
//
//   { CompileScope scope({"hiprtc", "source", bytes}); result = next().hiprtcCompileProgram(...); }
//
// The first CompileScope of the process reads the policy and maps the table of permits. A process without one reads and
// maps nothing. A compilation inside another one of the same thread rides on it (hipRTC calls comgr). In a program that
// a compiler process has started, one compilation at a time rides on that process's permit. The runtime lets one thread
// at a time into some functions. There `one_at_a_time` makes the others wait before they take a permit, so that they do
// not keep one while they wait (rule 33).
//
// Threads: any; a scope is left by the thread that made it, by return or exception. A forked child holds nothing.
#pragma once

#include <string_view>

#include "policy/policy.h"
#include "shim/compile/permit_wait.h"

namespace graphpool {

/// What decides the class of a compilation's size: its tool, the kind of its input, and the input's size to the next
/// lower power of eight. Without a tool it is no compilation.
struct Compilation {
  std::string_view tool, kind;
  std::uint64_t input_bytes = 0;
  bool one_at_a_time = false;
};

/// Writes "tool kind 64K" to text; returns its length.
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

/// The permit of the compilation that the calling thread is in: its own, or the one it rides on. Not held: there is
/// none.
Permit permit_of_thread() noexcept;
/// Lets the calling thread ride on this permit in all it does, while the permit's generation lasts.
void ride_in_thread(const Permit& permit) noexcept;
/// Whether the calling thread is in a call that compiles, whatever it holds.
bool inside_compilation() noexcept;
/// Whether the calling thread rides, or is in a compilation.
bool thread_compiles() noexcept;

/// The permits this process uses; null: none (switched off, policy unusable, no memory). May read the policy.
struct CompilePermits {
  PermitTable table;
  PermitSettings settings;
  PermitCounters counters;
  Scope scope = Scope::kProcess;
  ParentPermit parent;  ///< of the compiler process that this program was started by
};
CompilePermits* compile_permits() noexcept;

/// Whether a compilation that begins now would take a permit. Asked first where it takes time to find out its class.
bool compilation_would_count() noexcept;

/// Null while no compilation was seen.
const CompilePermits* compile_permits_in_use() noexcept;

/// Notes what the processes of the policy's scope have done so far, because a report tells what they do from now on.
/// Only the first call does so. Makes no table. One thread at a time.
void note_scope_counts(const Policy& policy) noexcept;

/// Called when the permits of this process have been opened. The report defines it, and registers itself.
void permits_opened(const Policy& policy) noexcept;

/// For the report: what this process did, and all of its scope since note_scope_counts().
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
/// Returns false where neither this process nor another one of its scope has compiled anything.
bool read_compile_report(CompileReport& report) noexcept;

}  // namespace graphpool
