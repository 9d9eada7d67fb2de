// support.h: what the CPU runtime's tests share. The environment is read once a process, so a test that needs another
// one runs a part of its own program in a child: a test whose name begins with DISABLED_.
#pragma once

#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#define HIP_OK(call) ASSERT_EQ((call), hipSuccess)

using Environment = std::vector<std::pair<std::string, std::string>>;

/// Runs a disabled test of this program in a child with additions to the environment; its exit status (128 + signal).
inline int run_child(const std::string& test, const Environment& environment) {
  const pid_t child = fork();
  if (child == 0) {
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    const std::string filter = "--gtest_filter=" + test;
    execl("/proc/self/exe", "child", filter.c_str(), "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// A file name of this process that is gone after the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name) : path_(testing::TempDir() + name + std::to_string(getpid())) {}
  ~TemporaryFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

 private:
  const std::string path_;
};

/// A host function in a stream that does not return before the test opens it.
class Gate {
 public:
  explicit Gate(hipStream_t stream) {
    EXPECT_EQ(hipLaunchHostFunc(
                  stream, [](void* user) { static_cast<Gate*>(user)->stay(); }, this),
              hipSuccess);
  }
  ~Gate() {
    open();
    while (!left_) std::this_thread::yield();
  }
  void open() { open_ = true; }

 private:
  void stay() {
    while (!open_) std::this_thread::sleep_for(std::chrono::microseconds(50));
    left_ = true;
  }

  std::atomic<bool> open_{false}, left_{false};
};

inline void pause_shortly() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

inline char* device_bytes(std::size_t bytes) {
  void* pointer = nullptr;
  EXPECT_EQ(hipMalloc(&pointer, bytes), hipSuccess);
  return static_cast<char*>(pointer);
}
