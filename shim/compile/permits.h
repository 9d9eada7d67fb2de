// permits.h: compile permits of this process: what hooks of compile functions and compiler processes use.
//
//   { CompileScope scope({"hiprtc", "source", bytes}); result = next().hiprtcCompileProgram(...); }
//
// The first scope of the process reads the policy and maps the table of its scope. Scopes nest: a compilation inside a
// compilation of the same thread rides (hipRTC calls comgr). In a program that a compiler process has started, one at a
// time rides on that one's permit. A process that makes none reads and maps nothing.
// Where the runtime lets one thread at a time into a function, `one_at_a_time` makes the others wait before they take a
// permit, not with one (rule 33).
//
// Threads: any; a scope is left by the thread that made it, by return or exception. A forked child holds nothing.
#pragma once

#include <string_view>

#include "policy/policy.h"
#include "shim/compile/permit_wait.h"

namespace graphpool {

/// Tool and kind of input: what has a size of its own. Without a tool: no compilation. Larger inputs are other classes,
/// by powers of eight.
struct Compilation {
  std::string_view tool, kind;
  std::uint64_t input_bytes = 0;
  bool one_at_a_time = false;
};

/// Writes "tool kind 64K" to text; returns its length.
std::size_t class_name(const Compilation& of, char* text, std::size_t bytes) noexcept;

/// Finds the surrounding jobserver too, if the policy lets it. Not by two threads at once.
PermitSettings permit_settings(const Policy& policy) noexcept;

class CompileScope {
 public:
  explicit CompileScope(const Compilation& of) noexcept;
  ~CompileScope();
  CompileScope(const CompileScope&) = delete;
  CompileScope& operator=(const CompileScope&) = delete;

 private:
  Permit permit_;
  bool counted_ = false, outermost_ = false, holds_ = false;
  bool alone_ = false;
  std::uint64_t traced_since_ = 0;
};

/// The permit of the compilation that the calling thread is in, its own or the one it rides on; not held: none.
Permit permit_of_thread() noexcept;
/// The calling thread rides on this one, in all it does, while its generation lasts.
void ride_in_thread(const Permit& permit) noexcept;
/// Whether the calling thread is in a call that compiles, whatever it holds.
bool inside_compilation() noexcept;
/// Whether the calling thread rides, or is in a compilation.
bool thread_compiles() noexcept;

/// The permits this process uses; null: none (switched off, policy unusable). May read the policy.
struct CompilePermits {
  PermitTable table;
  PermitSettings settings;
  PermitCounters counters;
  Scope scope = Scope::kProcess;
  ParentPermit parent;  ///< of the compiler process that this program was started by
};
CompilePermits* compile_permits() noexcept;

/// Whether a compilation that begins now is an outermost one and permits are in use: what it is may take time to tell.
bool compilation_would_count() noexcept;

/// Null while no compilation was seen.
const CompilePermits* compile_permits_in_use() noexcept;

/// Notes what the processes of the policy's scope have done so far: a report is about what they do from now on. The
/// first call counts. Makes no table. By one thread at a time.
void note_scope_counts(const Policy& policy) noexcept;

/// The permits of this process have been opened. Defined with the report, which is arranged for then.
void permits_opened(const Policy& policy) noexcept;

/// For the report: what this process did, and all of its scope since note_scope_counts().
struct CompileReport {
  PermitCounters process;
  Scope scope;
  ScopeCounts counts;
  std::uint32_t peak_in_flight = 0;
  std::uint64_t most_held_bytes = 0, least_headroom_bytes = 0;  ///< as in PermitTable
  SizeClass classes[kMostClasses];
  std::uint32_t class_count = 0;
  PermitHolder holders[kMostPermits];  ///< those who compile now
  std::uint32_t holder_count = 0;
};
/// False: this process compiled nothing, and nobody of its scope did.
bool read_compile_report(CompileReport& report) noexcept;

}  // namespace graphpool
