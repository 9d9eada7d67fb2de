// base_log_test.cpp: what is written, where, and that the host never feels it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "shim/base/log.h"

namespace graphpool {
namespace {

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

/// A line as this process writes it. "warning: text"
std::string said_by(pid_t process, const std::string& rest) {
  return "graphpool[" + std::to_string(process) + "]: " + rest;
}
std::string said(const std::string& rest) { return said_by(getpid(), rest); }

/// A descriptor of this process, sent to a file as long as this lives.
class Captured {
 public:
  explicit Captured(int descriptor) : descriptor_(descriptor), before_(dup(descriptor)) {
    std::strcpy(path_, "/tmp/graphpool_log_XXXXXX");
    int file = mkstemp(path_);
    dup2(file, descriptor_);
    close(file);
  }
  ~Captured() {
    dup2(before_, descriptor_);
    close(before_);
    unlink(path_);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  std::string text() const { return content(path_); }

 private:
  int descriptor_;
  int before_;
  char path_[32];
};

/// Before main, before open_log(): the state a HIP call from another library's constructor finds.
char g_early[256];
__attribute__((constructor(101))) void log_before_main() {
  int both[2];
  if (pipe(both) != 0) return;
  int before = dup(STDERR_FILENO);
  dup2(both[1], STDERR_FILENO);
  log_warn("early %d", 1);
  log_info("not shown");
  dup2(before, STDERR_FILENO);
  close(before);
  close(both[1]);
  if (read(both[0], g_early, sizeof g_early - 1) < 0) g_early[0] = 0;
  close(both[0]);
}

class Log : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/graphpool_logdir_XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
    file_ = folder_ + "/log";
  }
  void TearDown() override {
    open_log(LogLevel::kWarn, "");
    unlink(file_.c_str());
    unlink((folder_ + "/moved").c_str());
    rmdir(folder_.c_str());
  }
  std::string folder_, file_;
};

TEST(LogEarly, WarningsOnStderrBeforeMain) { EXPECT_EQ(g_early, said("warning: early 1\n")); }

TEST_F(Log, LevelsAndTheirNames) {
  const std::pair<LogLevel, std::size_t> shown[] = {{LogLevel::kOff, 0},  {LogLevel::kError, 1}, {LogLevel::kWarn, 2},
                                                    {LogLevel::kInfo, 3}, {LogLevel::kDebug, 4}, {LogLevel::kTrace, 5}};
  const std::vector<std::string> all = {said("error: e 1"), said("warning: w 2"), said("info: i 3"), said("debug: d 4"),
                                        said("trace: t 5")};
  for (const auto& [level, count] : shown) {
    open_log(level, "");
    Captured captured(STDERR_FILENO);
    log_error("e %d", 1);
    log_warn("w %d", 2);
    log_info("i %d", 3);
    log_debug("d %d", 4);
    log_trace("t %d", 5);
    EXPECT_EQ(lines(captured.text()), std::vector<std::string>(all.begin(), all.begin() + static_cast<long>(count)));
    EXPECT_EQ(log_enabled(LogLevel::kDebug), level >= LogLevel::kDebug);
  }
}

TEST_F(Log, NothingOnStdout) {
  open_log(LogLevel::kTrace, "");
  Captured out(STDOUT_FILENO);
  Captured err(STDERR_FILENO);
  log_error("x");
  log_trace("x");
  fflush(stdout);
  EXPECT_EQ(out.text(), "");
}

TEST_F(Log, LongMessagesAreCut) {
  open_log(LogLevel::kWarn, "");
  Captured captured(STDERR_FILENO);
  log_warn("%s", std::string(5000, 'x').c_str());
  log_warn("next");
  std::string text = captured.text();
  ASSERT_EQ(lines(text).size(), 2u);
  EXPECT_EQ(lines(text)[0].size() + 1, kLongestLineBytes);
  EXPECT_EQ(lines(text)[1], said("warning: next"));
}

TEST_F(Log, OneLineWhateverTheMessageHolds) {
  open_log(LogLevel::kWarn, "");
  Captured captured(STDERR_FILENO);
  log_warn("a\nb\x1b[31mc\x7f\xc3\xa9 {} %s", "%d");
  EXPECT_EQ(captured.text(), said("warning: a b [31mc \xc3\xa9 {} %d\n"));
}

TEST_F(Log, ErrnoIsKept) {
  open_log(LogLevel::kWarn, "");
  Captured captured(STDERR_FILENO);
  errno = ENOENT;
  log_warn("x");
  EXPECT_EQ(errno, ENOENT);
  open_log(LogLevel::kWarn, folder_ + "/no/such/folder");
  EXPECT_EQ(errno, ENOENT);
  close(STDERR_FILENO);  // the write fails
  errno = EDOM;
  log_warn("lost");
  EXPECT_EQ(errno, EDOM);
}

TEST_F(Log, FileIsAppendedTo) {
  std::ofstream(file_) << "before\n";
  open_log(LogLevel::kWarn, file_);
  Captured captured(STDERR_FILENO);
  log_warn("one");
  open_log(LogLevel::kWarn, file_);
  log_warn("two");
  EXPECT_EQ(content(file_), "before\n" + said("warning: one\n") + said("warning: two\n"));
  EXPECT_EQ(captured.text(), "");
}

TEST_F(Log, FileThatCannotBeOpened) {
  Captured captured(STDERR_FILENO);
  open_log(LogLevel::kWarn, folder_ + "/no/log");
  log_warn("goes on");
  EXPECT_EQ(captured.text(),
            said("error: cannot write the log file " + folder_ + "/no/log: No such file or directory\n") +
                said("warning: goes on\n"));
}

TEST_F(Log, HostTakesOurDescriptor) {
  open_log(LogLevel::kWarn, file_);
  log_warn("one");
  // A daemon closes everything and opens a file of its own in every place we might still believe ours.
  std::string host_file = folder_ + "/moved";
  int host = open(host_file.c_str(), O_WRONLY | O_CREAT, 0600);
  struct stat ours {};
  ASSERT_EQ(stat(file_.c_str(), &ours), 0);
  int taken = 0;
  for (int descriptor = 3; descriptor < 1024; ++descriptor) {
    struct stat status {};
    if (fstat(descriptor, &status) != 0 || status.st_ino != ours.st_ino || status.st_dev != ours.st_dev) continue;
    dup2(host, descriptor);
    ++taken;
  }
  EXPECT_GE(taken, 1);
  log_warn("two");
  EXPECT_EQ(content(host_file), "");
  EXPECT_EQ(content(file_), said("warning: one\n") + said("warning: two\n"));
  close(host);
}

TEST_F(Log, Once) {
  open_log(LogLevel::kInfo, "");
  Captured captured(STDERR_FILENO);
  for (int i = 0; i < 3; ++i) {
    log_once(LogLevel::kInfo, "first", "first %d", i);
    log_once(LogLevel::kWarn, "second", "second %d", i);
  }
  EXPECT_EQ(captured.text(), said("info: first 0\n") + said("warning: second 0\n"));
}

TEST_F(Log, OnceIsNotUsedUpWhileSwitchedOff) {
  open_log(LogLevel::kWarn, "");
  Captured captured(STDERR_FILENO);
  log_once(LogLevel::kInfo, "hidden", "hidden");
  open_log(LogLevel::kInfo, "");
  log_once(LogLevel::kInfo, "hidden", "shown");
  EXPECT_EQ(captured.text(), said("info: shown\n"));
}

TEST_F(Log, RateLimit) {
  const auto next_second = std::chrono::milliseconds(1050);
  std::this_thread::sleep_for(next_second);
  open_log(LogLevel::kInfo, "");
  Captured captured(STDERR_FILENO);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) log_info("flood %d", i);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
  std::size_t flood = lines(captured.text()).size();
  EXPECT_GE(flood, kMostPerSecond);
  EXPECT_LE(flood, kMostPerSecond * (static_cast<std::size_t>(seconds.count()) + 2) + 1);
  log_once(LogLevel::kWarn, "in the flood", "in the flood");
  std::this_thread::sleep_for(next_second);  // also so that the tests after this one have lines left
  log_info("after");
  std::vector<std::string> all = lines(captured.text());
  ASSERT_GE(all.size(), 2u);
  EXPECT_EQ(all.back(), said("info: after"));
  const std::string& left_out = all[all.size() - 2];
  EXPECT_TRUE(left_out.starts_with(said("warning: ")) && left_out.ends_with(" messages left out, too many a second"))
      << left_out;
  log_once(LogLevel::kWarn, "in the flood", "behind the flood");
  EXPECT_EQ(lines(captured.text()).back(), said("warning: behind the flood")) << "its key was used up unsaid";
}

TEST_F(Log, DebugHasNoRateLimit) {
  open_log(LogLevel::kDebug, file_);
  for (int i = 0; i < 1000; ++i) log_debug("%d", i);
  EXPECT_EQ(lines(content(file_)).size(), 1000u);
}

TEST_F(Log, LinesOfThreadsStayWhole) {
  open_log(LogLevel::kTrace, file_);
  const std::string word(200, 'y');
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) log_trace("%s", word.c_str());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> all = lines(content(file_));
  EXPECT_EQ(all.size(), 2000u);
  EXPECT_TRUE(std::all_of(all.begin(), all.end(), [&](const auto& l) { return l == said("trace: " + word); }));
}

int exit_code_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(Log, ForkedChildWhileOtherThreadsLog) {
  open_log(LogLevel::kTrace, file_);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) log_trace("busy");
  });
  std::vector<std::string> children;
  for (int i = 0; i < 20; ++i) {
    pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a lock inherited from the other thread would hang here
      log_trace("child %d", i);
      _exit(0);
    }
    EXPECT_EQ(exit_code_of(child), 0);
    children.push_back(said_by(child, "trace: child " + std::to_string(i)));
  }
  stop = true;
  busy.join();
  std::vector<std::string> all = lines(content(file_));
  for (const std::string& line : children) EXPECT_EQ(std::count(all.begin(), all.end(), line), 1) << line;
}

TEST_F(Log, AfterExitHandlers) {
  pid_t child = fork();
  if (child == 0) {
    // Handlers run in reverse order: this one after every destructor registered below it.
    std::atexit([] { log_warn("late"); });
    open_log(LogLevel::kWarn, file_);
    log_warn("normal");
    std::exit(0);
  }
  EXPECT_EQ(exit_code_of(child), 0);
  EXPECT_EQ(content(file_), said_by(child, "warning: normal\n") + said_by(child, "warning: late\n"));
}

TEST_F(Log, ClosedPipeDoesNotKillTheHost) {
  open_log(LogLevel::kWarn, "");
  pid_t child = fork();
  if (child == 0) {
    int both[2];
    if (pipe(both) != 0) _exit(1);
    signal(SIGPIPE, SIG_DFL);
    dup2(both[1], STDERR_FILENO);
    close(both[0]);
    log_warn("nobody reads this");
    sigset_t set;
    sigpending(&set);
    if (sigismember(&set, SIGPIPE)) _exit(2);
    pthread_sigmask(SIG_BLOCK, nullptr, &set);
    if (sigismember(&set, SIGPIPE)) _exit(3);
    _exit(0);
  }
  EXPECT_EQ(exit_code_of(child), 0);
}

TEST_F(Log, PendingBrokenPipeOfTheHostStays) {
  open_log(LogLevel::kWarn, "");
  pid_t child = fork();
  if (child == 0) {
    sigset_t pipes;
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipes, nullptr);
    raise(SIGPIPE);
    Captured captured(STDERR_FILENO);
    log_warn("x");
    sigset_t pending;
    sigpending(&pending);
    _exit(sigismember(&pending, SIGPIPE) ? 0 : 1);
  }
  EXPECT_EQ(exit_code_of(child), 0);
}

TEST(LogLaterTest, what_is_said_within_is_written_at_the_end_and_in_order) {
  open_log(LogLevel::kWarn, "");
  const Captured captured(STDERR_FILENO);
  {
    const LogLater later;
    {
      const LogLater inside;
      log_warn("first");
    }
    log_error("%s", std::string(3 * kLongestLineBytes, 'x').c_str());
    log_info("not shown");
    EXPECT_EQ(captured.text(), "");
    std::thread([] { log_warn("another thread's"); }).join();
    EXPECT_EQ(lines(captured.text()).size(), 1u);
    errno = 5;
  }
  EXPECT_EQ(errno, 5);
  const std::vector<std::string> all = lines(captured.text());
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1], said("warning: first"));
  EXPECT_EQ(all[2].size(), kLongestLineBytes - 1);
}

}  // namespace
}  // namespace graphpool
