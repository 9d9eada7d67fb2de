#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "shim/report/devices.h"

namespace graphpool {
namespace {

class Devices : public ::testing::Test {
 protected:
  Devices() {
    char name[] = "devices-XXXXXX";
    root_ = mkdtemp(name);
  }
  ~Devices() override { std::filesystem::remove_all(root_); }

  void file(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_ + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void node(int number, const std::string& name, const std::string& version) const {
    const std::string folder = "/sys/class/kfd/kfd/topology/nodes/" + std::to_string(number);
    file(folder + "/name", name + "\n");
    file(folder + "/properties",
         "cpu_cores_count 0\nsimd_count 304\ngfx_target_version " + version + "\nunique_id 7\n");
  }

  std::string root_;
};

TEST_F(Devices, OfAmdInTheOrderOfNodes) {
  node(0, "", "0");
  node(10, "last", "110001");
  node(2, "aldebaran", "90010");
  node(3, "ip discovery", "90402");
  const std::vector<DeviceSeen> seen = devices_seen(root_);
  ASSERT_EQ(3u, seen.size()) << "a processor is no device";
  EXPECT_EQ("aldebaran", seen[0].name);
  EXPECT_EQ("gfx90a", seen[0].architecture);
  EXPECT_EQ("gfx942", seen[1].architecture);
  EXPECT_EQ("last", seen[2].name);
  EXPECT_EQ("gfx1101", seen[2].architecture);
}

TEST_F(Devices, OfNvidia) {
  file("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t H100 80GB\nIRQ:   5\n");
  const std::vector<DeviceSeen> seen = devices_seen(root_);
  ASSERT_EQ(1u, seen.size());
  EXPECT_EQ("H100 80GB", seen[0].name);
  EXPECT_EQ("", seen[0].architecture);
}

TEST_F(Devices, None) {
  EXPECT_TRUE(devices_seen(root_).empty());
  node(0, "", "");
  EXPECT_TRUE(devices_seen(root_).empty());
}

TEST_F(Devices, NotMoreThanARoomfulAreTold) {
  for (int i = 0; i < 70; ++i) node(i, "x", "90402");
  EXPECT_EQ(64u, devices_seen(root_).size());
}

}  // namespace
}  // namespace graphpool
