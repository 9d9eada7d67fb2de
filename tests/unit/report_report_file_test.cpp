#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <string>
#include <thread>

#include "shim/report/report_file.h"

namespace graphpool {
namespace {

/// What launchers say which rank a process has by.
constexpr const char* kRanks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"};

class ReportName : public ::testing::Test {
 protected:
  ReportName() {
    for (const char* name : kRanks) unsetenv(name);
  }
  ~ReportName() override {
    for (const char* name : kRanks) unsetenv(name);
  }
};

std::string this_host() {
  char name[256] = {};
  EXPECT_EQ(0, gethostname(name, sizeof name - 1));
  return name;
}

TEST_F(ReportName, rule_39_names_expand_process_id_rank_and_host) {
  const std::string process = std::to_string(getpid());
  EXPECT_EQ("report." + process + ".json", expand_report_name("report.%p.json"));
  EXPECT_EQ("report.0.json", expand_report_name("report.%r.json")) << "no launcher";
  EXPECT_EQ(this_host() + "/x", expand_report_name("%h/x"));
  for (const char* name : kRanks) {
    setenv(name, "17", 1);
    EXPECT_EQ("17", expand_report_name("%r")) << name;
    unsetenv(name);
  }
  EXPECT_EQ(process + "-0-" + this_host() + process, expand_report_name("%p-%r-%h%p"));
}

TEST_F(ReportName, rule_39_workers_of_torchrun_have_its_rank_also_under_slurm) {
  setenv("SLURM_PROCID", "0", 1);
  setenv("RANK", "5", 1);
  EXPECT_EQ("0", expand_report_name("%r")) << "other programs set RANK, too";
  setenv("TORCHELASTIC_RUN_ID", "none", 1);
  EXPECT_EQ("5", expand_report_name("%r"));
  unsetenv("TORCHELASTIC_RUN_ID");
}

TEST_F(ReportName, rule_39_other_per_cent_signs_stay) {
  EXPECT_EQ("100%", expand_report_name("100%%"));
  EXPECT_EQ("%p", expand_report_name("%%p"));
  EXPECT_EQ("%x%", expand_report_name("%x%"));
  EXPECT_EQ("", expand_report_name(""));
}

TEST_F(ReportName, marks_that_stand_for_nothing_are_told) {
  EXPECT_EQ("", unknown_marks("%p %r %h %u %% 100%"));
  EXPECT_EQ("%q, %x", unknown_marks("r_%q-%%p%x"));
}

TEST_F(ReportName, a_number_from_the_second_name_on) {
  EXPECT_EQ("r.json", expand_report_name("r%u.json"));
  EXPECT_EQ("r-2.json", expand_report_name("r%u.json", 2));
}

class ReportFile : public ReportName {
 protected:
  ReportFile() {
    char name[] = "report-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~ReportFile() override { std::filesystem::remove_all(folder_); }

  static std::string text_of(const std::string& name) {
    std::ifstream file(name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
};

TEST_F(ReportFile, a_claimed_name_is_nobody_elses) {
  const std::string pattern = folder_ + "/r%u.json";
  EXPECT_EQ(folder_ + "/r.json", claim_report_name(pattern));
  EXPECT_EQ(folder_ + "/r-2.json", claim_report_name(pattern));
  EXPECT_EQ(folder_ + "/r-3.json", claim_report_name(pattern));
  EXPECT_TRUE(write_report_file(folder_ + "/r-2.json", "two"));
  EXPECT_EQ("two", text_of(folder_ + "/r-2.json"));
  EXPECT_EQ("", text_of(folder_ + "/r.json"));
}

TEST_F(ReportFile, a_name_without_a_number_is_taken_as_it_is) {
  EXPECT_EQ(folder_ + "/r.json", claim_report_name(folder_ + "/r.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/r.json"));
  EXPECT_EQ(folder_ + "/no/r.json", claim_report_name(folder_ + "/no/r%u.json")) << "nothing can be made there";
}

TEST_F(ReportFile, a_number_never_joins_a_sign_before_it) {
  for (const char* const pattern : {"a%.json", "b%%.json", "c%%%.json", "d%"}) {
    const std::string all = folder_ + '/' + pattern;
    const std::string first = claim_new_name(all), second = claim_new_name(all);
    EXPECT_EQ(expand_report_name(all), first);
    EXPECT_NE(first, second) << pattern;
    EXPECT_EQ(second.find("%u"), std::string::npos) << second;
  }
}

TEST_F(ReportFile, what_lies_in_the_place_of_the_file_aside_is_not_followed) {
  const std::string name = folder_ + "/r.json", aside = name + '.' + std::to_string(getpid());
  ASSERT_TRUE(write_report_file(folder_ + "/other", "other"));
  ASSERT_EQ(0, symlink("other", aside.c_str()));
  EXPECT_TRUE(write_report_file(name, "text"));
  EXPECT_EQ("other", text_of(folder_ + "/other"));
  EXPECT_EQ("text", text_of(name));
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(name)));
}

TEST_F(ReportFile, without_memory_the_file_aside_goes) {
  EXPECT_TRUE(write_report_file(folder_ + "/r.json", "before"));
  const int next = dup(0);
  close(next);
  EXPECT_THROW(write_report_pieces(folder_ + "/r.json", [](WritePiece) -> bool { throw std::bad_alloc(); }),
               std::bad_alloc);
  const int same = dup(0);
  close(same);
  EXPECT_EQ(next, same) << "a descriptor stays open";
  EXPECT_EQ("before", text_of(folder_ + "/r.json"));
  EXPECT_EQ(1, std::distance(std::filesystem::directory_iterator(folder_), {}));
}

TEST_F(ReportFile, a_pipe_is_written_if_somebody_reads_it) {
  const std::string name = folder_ + "/pipe";
  ASSERT_EQ(0, mkfifo(name.c_str(), 0600));
  EXPECT_FALSE(write_report_file(name, "text")) << "nobody reads it";
  EXPECT_EQ(ENXIO, errno);
  const int reader = open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  std::string read_back, text(1 << 20, 'x');  // more than a pipe holds
  std::thread writer([&] { EXPECT_TRUE(write_report_file(name, text)); });
  while (read_back.size() < text.size()) {
    char piece[4096];
    const ssize_t bytes = read(reader, piece, sizeof piece);
    if (bytes > 0)
      read_back.append(piece, static_cast<std::size_t>(bytes));
    else
      std::this_thread::yield();
  }
  writer.join();
  close(reader);
  EXPECT_EQ(text, read_back);
}

TEST_F(ReportFile, says_what_cannot_be_written) {
  EXPECT_EQ(nullptr, why_unwritable(folder_ + "/r.json"));
  EXPECT_EQ(nullptr, why_unwritable("r.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/r.json"));
  EXPECT_STREQ("there is no such folder", why_unwritable(folder_ + "/no/r.json"));
  EXPECT_STREQ("it is a directory", why_unwritable(folder_));
  ASSERT_TRUE(write_report_file(folder_ + "/plain", "x"));
  EXPECT_STREQ("there is no such folder", why_unwritable(folder_ + "/plain/r.json"));
  EXPECT_EQ(nullptr, why_unwritable(folder_ + "/plain"));
  if (geteuid() == 0) return;  // who may write everywhere
  ASSERT_EQ(0, chmod(folder_.c_str(), 0500));
  EXPECT_STREQ("permission denied", why_unwritable(folder_ + "/r.json"));
  ASSERT_EQ(0, chmod(folder_.c_str(), 0700));
}

}  // namespace
}  // namespace graphpool
