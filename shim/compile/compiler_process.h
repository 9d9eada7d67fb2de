// compiler_process.h: a process that is itself a compiler takes a permit before its main and keeps it for its life.
//
// Why in the child: no parent is stalled or changed, however it starts its compilers. The child waits after its exec,
// although it would have no memory of its own before: the parent waits for the exec, by vfork or at a pipe that the
// exec closes. Compilers inherit the preloaded library. Its constructor looks at the name that the process was started
// by (a script's own, not its interpreter's) and at that of its file. In other processes it takes care of jobservers
// only: it offers one if the policy says so, and gives back bytes that the process read before an exec. It reads the
// policy where this, or which tools compile, may depend on it. Static programs do not load the library, so they are
// left alone.
//
// A variable of the environment names the permit to children (process, start time, namespace, generation), so that
// hipcc, its clang and the clang's lld are one compilation (rule 35). A call that compiles sets no variable, because
// other threads may read the environment; a child finds the permit by the number of its parent. Nothing is ever printed
// (rule 36).
#pragma once

#include <string_view>
#include <vector>

#include "policy/glob.h"
#include "shim/compile/permit_wait.h"

namespace graphpool {

/// Gives this process's permit back. Does nothing in a child, also one of vfork, and in a process that is no compiler.
void end_compiler_process() noexcept;

/// Whether this process is a compiler that has a permit: all it does is one compilation.
bool compiler_process_holds() noexcept;

/// Whether a name matches the default of a key. The default is a list of globs that have a star at their end at most.
/// Allocates nothing.
bool matches_default(std::string_view key, std::string_view name) noexcept;

/// Whether the environment or the policy's file may say something of a key. Does not read the policy.
bool policy_may_say(const char* variable, std::string_view word) noexcept;

/// The variable that names the permit.
inline constexpr const char* kPermitVariable = "LIBGRAPHPOOL_PERMIT";

/// Whether a program of this name compiles. Tools that only read or format sources do not, whatever `tools` says.
bool is_compiler(std::string_view name, const std::vector<Glob>& tools) noexcept;

/// Whether these arguments compile nothing: there are none, or they ask for help, a version or a path, or only
/// preprocess. arguments: argv, null at its end.
bool only_asks(const char* const* arguments) noexcept;

/// The largest input file among the arguments: its extension (8 letters at most), and its size. "link": there is none.
struct CompilerInput {
  std::string_view kind = "link";
  std::uint64_t bytes = 0;
};
CompilerInput compiler_input(const char* const* arguments) noexcept;

/// Writes "process.start.space.generation", and reads it again; process 0: the text is none.
std::size_t permit_text(const ParentPermit& parent, char* text, std::size_t bytes) noexcept;
ParentPermit parse_permit(std::string_view text) noexcept;

}  // namespace graphpool
