// probes [--runtime FILE] [--limit SECONDS] [--risky] [--loud] [ID...]: asks the HIP runtime that the loader finds, or
// that file: all probes, or those named, one after another, each in a process of its own. A line each:
//     ID <tab> holds | fails | unknown <tab> what was seen
// The first line is `runtime`, with its version and its device's name. A crash is `fails`, and so is what takes longer
// than the limit (20 s). --risky also asks what may harm more than a process. --loud: what the runtime says is not
// hidden. probes --list: ID <tab> kind <tab> sentence of each. The exit code is 0 if every question was put, 2 for a
// wrong argument.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/probes/probe.h"

namespace probes {
namespace {

struct Options {
  const char* runtime = nullptr;
  int limit_s = 20;
  bool risky = false, loud = false, list = false;
  std::vector<const char*> ids;
};

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kPlain:
      return "plain";
    case Kind::kMeasured:
      return "measured";
    case Kind::kRisky:
      return "risky";
  }
  return "";
}

std::vector<Probe> all_probes() {
  std::vector<Probe> all;
  for (const auto& part : {capture_probes(), graph_probes(), memory_probes(), cost_probes()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// An answer as the child writes it: a letter, then the value.
std::string ask(const Options& options, const std::function<Finding()>& question) {
  try {
    open_runtime(options.runtime);
    WORKS(hip::hipSetDevice(0));
    const Finding found = question();
    const char letter = found.answer == Answer::kHolds ? 'h' : found.answer == Answer::kFails ? 'f' : 'u';
    return letter + found.value;
  } catch (const std::exception& why) {
    return std::string("u") + why.what();
  }
}

/// In a process that ends without a destructor: what the runtime does at its end is no question of ours.
[[noreturn]] void answer(const Options& options, const std::function<Finding()>& question, int to) {
  setpgid(0, 0);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (!options.loud) {
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
  }
  const std::string text = ask(options, question);
  static_cast<void>(!write(to, text.data(), text.size()));
  _exit(0);
}

Finding read_answer(const std::string& text, int status, bool late) {
  if (!text.empty()) {
    const Answer answer = text[0] == 'h' ? Answer::kHolds : text[0] == 'f' ? Answer::kFails : Answer::kUnknown;
    return {answer, text.substr(1)};
  }
  if (late) return {Answer::kFails, "no answer in time"};
  if (WIFSIGNALED(status)) return {Answer::kFails, std::string("ends by ") + strsignal(WTERMSIG(status))};
  return {Answer::kFails, "ends without an answer"};
}

Finding in_process_of_its_own(const Options& options, const std::function<Finding()>& question) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {Answer::kUnknown, "no pipe"};
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return {Answer::kUnknown, "no process"};
  if (child == 0) answer(options, question, ends[1]);
  close(ends[1]);
  std::string text;
  pollfd readable{ends[0], POLLIN, 0};
  const bool late = poll(&readable, 1, options.limit_s * 1000) == 0;
  if (!late) {
    char part[512];
    for (ssize_t count; (count = read(ends[0], part, sizeof part)) > 0;)
      text.append(part, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  // It may have started others, and a runtime's end may hang.
  kill(-child, SIGKILL);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  return read_answer(text, status, late);
}

void print(const char* id, const Finding& found) {
  const char* const answer = found.answer == Answer::kHolds   ? "holds"
                             : found.answer == Answer::kFails ? "fails"
                                                              : "unknown";
  std::printf("%s\t%s\t%s\n", id, answer, found.value.c_str());
  std::fflush(stdout);
}

Finding version_and_device() {
  hipDeviceProp_t properties{};
  char name[sizeof properties.name] = "";
  WORKS(hip::hipDeviceGetName(name, sizeof name, 0));
  return {Answer::kHolds, std::to_string(runtime_version()) + " " + name};
}

[[noreturn]] void usage(const char* wrong) {
  std::fprintf(stderr,
               "cannot use '%s'; probes [--runtime FILE] [--limit SECONDS] [--risky] [--loud] [--list] [ID...]\n",
               wrong);
  std::exit(2);
}

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--risky")
      options.risky = true;
    else if (argument == "--loud")
      options.loud = true;
    else if (argument == "--list")
      options.list = true;
    else if (argument == "--runtime" && i + 1 < count)
      options.runtime = arguments[++i];
    else if (argument == "--limit" && i + 1 < count)
      options.limit_s = std::max(1, std::atoi(arguments[++i]));
    else if (argument.rfind("--", 0) == 0)
      usage(arguments[i]);
    else
      options.ids.push_back(arguments[i]);
  }
  return options;
}

int ask_all(const Options& options) {
  const std::vector<Probe> all = all_probes();
  if (options.list) {
    for (const Probe& probe : all) std::printf("%s\t%s\t%s\n", probe.id, name_of(probe.kind), probe.sentence);
    return 0;
  }
  for (const char* id : options.ids)
    if (std::none_of(all.begin(), all.end(), [&](const Probe& probe) { return std::strcmp(probe.id, id) == 0; }))
      usage(id);
  print("runtime", in_process_of_its_own(options, version_and_device));
  for (const Probe& probe : all) {
    const auto& ids = options.ids;
    if (!ids.empty() &&
        std::none_of(ids.begin(), ids.end(), [&](const char* id) { return std::strcmp(id, probe.id) == 0; }))
      continue;
    if (probe.kind == Kind::kRisky && !options.risky)
      print(probe.id, {Answer::kUnknown, "asked only with --risky"});
    else
      print(probe.id, in_process_of_its_own(options, probe.ask));
  }
  return 0;
}

}  // namespace
}  // namespace probes

int main(int count, char** arguments) { return probes::ask_all(probes::parse(count, arguments)); }
