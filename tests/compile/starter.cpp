// starter.cpp HOW WORD... [, HOW WORD...]...: a HIP program that starts programs, all at once, and waits for them.
//   spawn FILE WORD...  by posix_spawn    system WORD  by system, in a thread
// Before that it makes a HIP call. Compiles nothing itself; how its children end is not looked at.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" int hipMalloc(void**, std::size_t);

int main(int count, char** words) {
  void* memory = nullptr;
  if (hipMalloc(&memory, 1) == 0) return 3;
  std::vector<pid_t> children;
  std::vector<std::thread> threads;
  for (int i = 1; i < count;) {
    const std::string how = words[i];
    std::vector<char*> command;
    for (++i; i < count && std::strcmp(words[i], ",") != 0; ++i) command.push_back(words[i]);
    ++i;
    command.push_back(nullptr);
    if (how == "spawn") {
      pid_t child = 0;
      if (posix_spawn(&child, command[0], nullptr, nullptr, command.data(), environ) != 0) return 4;
      children.push_back(child);
    } else {
      threads.emplace_back([text = command[0]] {
        if (std::system(text) < 0) std::_Exit(5);
      });
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    if (waitpid(child, &status, 0) != child) return 6;
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}
