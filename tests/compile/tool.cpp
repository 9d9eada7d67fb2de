// tool.cpp: a program with a compiler's name. Its words are done in order; "--" ends them (a compiler has an input).
//   burn MS     uses processor time        fork-burn MS  a forked child that outlives it does, in the background
//   run FILE... starts a program with the words up to "end" and waits for it
//   sleep MS    uses none                  pid FILE      writes its number
//   await FILE  until it is there          touch FILE    makes it
//   grow MIB    writes to so much memory, and keeps it
//   meet FOLDER COUNT  uses processor time until so many programs have come to this word in that folder
//   leave       ends without exit handlers exec FILE...  becomes a program, with the words up to the end
//   absent      calls functions that compile, of libraries that are not loaded: each must say that it has failed
#include <dirent.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
[[gnu::weak]] int amd_comgr_do_action(int, std::uint64_t, std::uint64_t, std::uint64_t);
[[gnu::weak]] int LLVMTargetMachineEmitToFile(void*, void*, char*, int, char**);
[[gnu::weak]] const void* lto_codegen_compile(void*, std::size_t*);
[[gnu::weak]] bool lto_codegen_optimize(void*);
[[gnu::weak]] void thinlto_codegen_process(void*);
}

namespace {

std::vector<char> kept;

bool absent_ones_fail() {
  char* reason = nullptr;
  const bool failed = amd_comgr_do_action(0, 0, 0, 0) == 1 && lto_codegen_compile(nullptr, nullptr) == nullptr &&
                      lto_codegen_optimize(nullptr) &&
                      LLVMTargetMachineEmitToFile(nullptr, nullptr, nullptr, 0, &reason) == 1 && reason != nullptr;
  thinlto_codegen_process(nullptr);  // it has no answer
  std::free(reason);
  return failed;
}

long now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

void burn(long ms) {
  for (const long end = now_ms() + ms; now_ms() < end;) {
  }
}

void meet(const std::string& folder, long count) {
  std::fclose(std::fopen((folder + '/' + std::to_string(getpid())).c_str(), "w"));
  for (long there = 0; there < count; burn(1)) {
    there = 0;
    DIR* const files = opendir(folder.c_str());
    while (const dirent* const file = readdir(files)) there += file->d_name[0] != '.' ? 1 : 0;
    closedir(files);
  }
}

int run(std::vector<char*> words) {
  words.push_back(nullptr);
  const pid_t child = vfork();
  if (child == 0) {
    execv(words[0], words.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

int main(int count, char** words) {
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "burn") {
      burn(std::atol(words[++i]));
    } else if (word == "sleep") {
      usleep(static_cast<useconds_t>(std::atol(words[++i]) * 1000));
    } else if (word == "fork-burn") {
      const long ms = std::atol(words[++i]);
      if (fork() == 0) {
        for (const int descriptor : {0, 1, 2}) close(descriptor);
        usleep(static_cast<useconds_t>(ms * 1000));
        _exit(0);
      }
    } else if (word == "pid") {
      const std::string draft = std::string(words[++i]) + ".new";
      std::FILE* const file = std::fopen(draft.c_str(), "w");
      std::fprintf(file, "%d", getpid());
      std::fclose(file);
      std::rename(draft.c_str(), words[i]);
    } else if (word == "await") {
      for (++i; access(words[i], F_OK) != 0;) usleep(10'000);
    } else if (word == "touch") {
      std::fclose(std::fopen(words[++i], "w"));
    } else if (word == "grow") {
      kept.insert(kept.end(), static_cast<std::size_t>(std::atol(words[++i])) << 20, 1);
    } else if (word == "meet") {
      meet(words[i + 1], std::atol(words[i + 2]));
      i += 2;
    } else if (word == "absent") {
      if (!absent_ones_fail()) return 5;
    } else if (word == "leave") {
      _exit(0);
    } else if (word == "exec") {
      execv(words[i + 1], words + i + 1);
      return 127;
    } else if (word == "run") {
      std::vector<char*> child;
      int depth = 1;
      for (++i; i < count; ++i) {
        if (std::strcmp(words[i], "run") == 0) ++depth;
        if (std::strcmp(words[i], "end") == 0 && --depth == 0) break;
        child.push_back(words[i]);
      }
      if (const int code = run(child)) return code;
    }
  }
  std::puts("done");
  return 0;
}
