#include "shim/compile/compiler_process.h"

#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "policy/load.h"
#include "shim/compile/control_group.h"
#include "shim/compile/jobserver.h"
#include "shim/compile/permits.h"
#include "shim/compile/relocated_memory.h"
#include "shim/compile/shared_memory.h"
#include "shim/hip/entry.h"
#include "shim/hip/process_policy.h"

namespace graphpool {
namespace {

// Front ends of a compiler's library that compile nothing.
constexpr std::string_view kNoCompilers[] = {"clangd",      "clang-format", "clang-tidy", "clang-offload-bundler",
                                             "clang-query", "clang-repl"};

std::string_view base_name(std::string_view path) noexcept { return path.substr(path.rfind('/') + 1); }

/// The policy, read when it is first asked for; null: it cannot be used.
class PolicyOnce {
 public:
  const Policy* get() {
    if (!loaded_.has_value()) loaded_ = load(read_policy_file, environ);
    return loaded_->policy.has_value() ? &*loaded_->policy : nullptr;
  }

 private:
  std::optional<Loaded> loaded_;
};

struct State {
  Permit permit;
  PermitTable table;
  PermitSettings settings;
  PermitCounters counters;
};
State* g_state = nullptr;

/// The holder that the variable names. Without the variable: the nearest ancestor on whose permit this process can ride
/// now; it does so at once.
ParentPermit parent_permit(PermitTable& table, Permit& permit) {
  if (const char* const text = std::getenv(kPermitVariable)) return parse_permit(text);
  constexpr int kGenerations = 4;
  pid_t process = getppid();
  for (int i = 0; i < kGenerations && process > 1; ++i) {
    const ProcessName name = process_name(machine(), process);
    permit = table.ride(name, 0);
    if (permit.held()) return {name, 0};
    process = process_times(machine(), process).parent;
  }
  return {};
}

/// How long ago this process was forked.
std::uint64_t age_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const std::uint64_t second = 1'000'000'000, tick = second / 100;  // USER_HZ
  const std::uint64_t ns = static_cast<std::uint64_t>(now.tv_sec) * second + static_cast<std::uint64_t>(now.tv_nsec);
  return ns - std::min(ns, process_times(machine(), getpid()).start_ticks * tick);
}

void take_permit(PolicyOnce& policies, const char* name, const char* const* arguments) {
  const Policy* const loaded = policies.get();
  if (loaded == nullptr || !loaded->enabled || !loaded->compile.enabled) return;
  const Policy& policy = *loaded;
  // In the scope of a process a compiler would count itself alone.
  if (policy.compile.scope == Scope::kProcess) return;
  SharedPermits* const memory = open_permits(policy.compile.scope);
  if (memory == nullptr) return;
  State* const state = new State;
  state->table = PermitTable(*memory, machine());
  PermitSettings& settings = state->settings = permit_settings(policy);
  settings.says = false;
  const CompilerInput input = compiler_input(arguments);
  char text[kClassNameBytes];
  PermitRequest request;
  request.size_class = {text, class_name({name, input.kind, input.bytes}, text, sizeof text)};
  request.input_bytes = input.bytes;
  request.before = process_memory(machine(), getpid());
  request.starting_ns = age_ns();
  const ParentPermit parent = parent_permit(state->table, state->permit);
  if (state->permit.held()) {
    state->table.figures().add(&ScopeCounts::ridden);
  } else {
    RelocatedMemory relocated;
    request.relocated = &relocated;
    wait_for_permit(state->table, machine(), settings, request, parent, state->counters, state->permit);
  }
  if (!state->permit.held()) return;
  // Children of a rider ride too: each process names itself as their parent.
  char named[80];
  permit_text({process_name(machine(), getpid()), state->permit.generation}, named, sizeof named);
  setenv(kPermitVariable, named, 1);
  g_state = state;
}

/// Gives back the bytes of a jobserver that this process read before its exec, if it takes no permit now.
void give_back_from_before_exec(PolicyOnce& policies) {
  const char* const text = std::getenv(kPermitVariable);
  if (text == nullptr || parse_permit(text).holder.process != getpid()) return;
  const Policy* const policy = policies.get();
  if (policy == nullptr || policy->compile.scope == Scope::kProcess) return;
  const PermitSettings settings = permit_settings(*policy);
  if (settings.tokens == nullptr) return;
  SharedPermits* const memory = open_permits(policy->compile.scope);
  if (memory == nullptr) return;
  PermitTable table(*memory, machine());
  give_back_owed_bytes(table, *settings.tokens);
  close_permits(memory);
}

/// Offers a jobserver where the policy says so and there is none. make has its own: an older make must not see an
/// offered one.
void offer_a_jobserver(PolicyOnce& policies, std::string_view name) {
  if (name == "make" || name == "gmake") return hide_offered_jobserver();
  if (!policy_may_say("GRAPHPOOL_COMPILE_JOBSERVER", "jobserver")) return;
  const Policy* const policy = policies.get();
  if (policy == nullptr || !policy->enabled || !policy->compile.enabled ||
      policy->compile.jobserver != Jobserver::kOffer)
    return;
  PermitSettings settings;
  settings.max = policy->compile.max;
  if (settings.max.is_auto()) settings.quota = processor_quota(machine());
  static_cast<void>(offer_jobserver(machine(), permit_limits(settings, machine(), 0).own()));
}

/// glibc hands a library's constructors what main gets.
__attribute__((constructor)) void start_compiler_process(int, char** arguments, char**) noexcept {
  const auto* const started_as = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (started_as == nullptr || arguments == nullptr || environ == nullptr) return;
  if (getauxval(AT_SECURE) != 0) return;  // it must not do in files what its caller could not
  const int saved_errno = errno;
  remember_inherited_jobserver();
  char file[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
  file[length > 0 ? length : 0] = '\0';
  const std::string_view names[] = {base_name(started_as), base_name(file)};
  try {
    const InsideScope inside;
    PolicyOnce policies;
    std::string_view compiler;
    offer_a_jobserver(policies, names[1]);
    if (policy_may_say("GRAPHPOOL_COMPILE_TOOLS", "tools")) {
      const Policy* const policy = policies.get();
      for (const std::string_view name : names)
        if (compiler.empty() && policy != nullptr && is_compiler(name, policy->compile.tools)) compiler = name;
    } else {
      for (const std::string_view name : names)
        if (compiler.empty() && matches_default("compile.tools", name) && is_compiler(name, {Glob("*")}))
          compiler = name;
    }
    if (!compiler.empty() && !only_asks(arguments) && !another_copy_behind_us()) {
      take_permit(policies, std::string(compiler).c_str(), arguments);
    } else {
      give_back_from_before_exec(policies);
    }
  } catch (const std::bad_alloc&) {
  }
  errno = saved_errno;
}

/// Other ways out than exit and _exit (a signal, exec) leave it to the kernel to free the permit.
__attribute__((destructor)) void end_with_exit() noexcept { end_compiler_process(); }

}  // namespace

bool matches_default(std::string_view key, std::string_view name) noexcept {
  std::string_view rest;
#define POLICY_KEY(section, name, reader, fallback, help) \
  if (std::string_view(#section "." #name) == key) rest = fallback;
#include "policy/policy_keys.def"
  while (!rest.empty()) {
    const std::string_view pattern = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), pattern.size() + 1));
    const bool prefix = pattern.ends_with('*');
    if (prefix ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern) return true;
  }
  return false;
}

bool policy_may_say(const char* variable, std::string_view word) noexcept {
  if (secure_getenv(variable) != nullptr) return true;
  const char* const path = secure_getenv("GRAPHPOOL_POLICY");
  if (path == nullptr || path[0] == '\0') return false;
  return file_holds(path, word);
}

bool compiler_process_holds() noexcept {
  return g_state != nullptr && g_state->permit.held() && g_state->permit.process == getpid();
}

void end_compiler_process() noexcept {
  if (g_state == nullptr || g_state->permit.process != getpid()) return;
  const int saved_errno = errno;
  end_permit(g_state->table, g_state->settings, g_state->permit, process_memory(machine(), getpid()));
  errno = saved_errno;
}

bool is_compiler(std::string_view name, const std::vector<Glob>& tools) noexcept {
  for (const std::string_view none : kNoCompilers)
    if (name.starts_with(none)) return false;
  return std::any_of(tools.begin(), tools.end(), [name](const Glob& glob) { return glob.matches(name); });
}

bool only_asks(const char* const* arguments) noexcept {
  if (arguments[0] == nullptr || arguments[1] == nullptr) return true;
  if (arguments[2] == nullptr && std::strcmp(arguments[1], "-v") == 0) return true;  // else it compiles and talks
  for (const char* const* argument = arguments + 1; *argument != nullptr; ++argument) {
    const std::string_view word = *argument;
    for (const std::string_view question : {"--version", "-V", "--help", "-help", "-###", "-E"})
      if (word == question) return true;
    for (const std::string_view question : {"-print-", "--print-", "-dump"})
      if (word.starts_with(question)) return true;
  }
  return false;
}

CompilerInput compiler_input(const char* const* arguments) noexcept {
  CompilerInput input;
  for (const char* const* argument = arguments[0] == nullptr ? arguments : arguments + 1; *argument != nullptr;
       ++argument) {
    const std::string_view word = *argument;
    if (word.starts_with('-')) {
      if (word == "-o" && argument[1] != nullptr) ++argument;
      continue;
    }
    const std::string_view name = base_name(word);
    const std::size_t dot = name.rfind('.');
    struct stat status {};
    if (dot == std::string_view::npos || stat(*argument, &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (static_cast<std::uint64_t>(status.st_size) < input.bytes) continue;
    input.kind = name.substr(dot + 1, 8);
    input.bytes = static_cast<std::uint64_t>(status.st_size);
  }
  return input;
}

std::size_t permit_text(const ParentPermit& parent, char* text, std::size_t bytes) noexcept {
  const int length =
      std::snprintf(text, bytes, "%d.%llu.%u.%u", parent.holder.process,
                    static_cast<unsigned long long>(parent.holder.start_ticks), parent.holder.space, parent.generation);
  return length < 0 ? 0 : static_cast<std::size_t>(length);
}

ParentPermit parse_permit(std::string_view text) noexcept {
  ParentPermit parent;
  const char* rest = text.data();
  const char* const end = rest + text.size();
  const auto number = [&rest, end](auto& value, char separator) {
    const auto [next, error] = std::from_chars(rest, end, value);
    const bool good = error == std::errc() && (separator == '\0' ? next == end : next != end && *next == separator);
    rest = good && separator != '\0' ? next + 1 : next;
    return good;
  };
  const bool good = number(parent.holder.process, '.') && number(parent.holder.start_ticks, '.') &&
                    number(parent.holder.space, '.') && number(parent.generation, '\0') && parent.holder.process > 0;
  return good ? parent : ParentPermit{};
}

}  // namespace graphpool
