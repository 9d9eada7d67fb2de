#include "shim/report/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

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

std::string host_name() {
  char name[256] = {};
  EXPECT_EQ(0, gethostname(name, sizeof name - 1));
  return name;
}

TEST_F(ReportName, rule_39_names_expand_process_id_rank_and_host) {
  const std::string process = std::to_string(getpid());
  EXPECT_EQ("report." + process + ".json", expand_report_name("report.%p.json"));
  EXPECT_EQ("report.0.json", expand_report_name("report.%r.json")) << "no launcher";
  EXPECT_EQ(host_name() + "/x", expand_report_name("%h/x"));
  for (const char* name : kRanks) {
    setenv(name, "17", 1);
    EXPECT_EQ("17", expand_report_name("%r")) << name;
    unsetenv(name);
  }
  EXPECT_EQ(process + "-0-" + host_name() + process, expand_report_name("%p-%r-%h%p"));
}

TEST_F(ReportName, rule_39_other_per_cent_signs_stay) {
  EXPECT_EQ("100%", expand_report_name("100%%"));
  EXPECT_EQ("%p", expand_report_name("%%p"));
  EXPECT_EQ("%x%", expand_report_name("%x%"));
  EXPECT_EQ("", expand_report_name(""));
}

}  // namespace
}  // namespace graphpool
