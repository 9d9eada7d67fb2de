// The builds for HIP 6 and 7: what a program linked against them gets. EXPECTED_VERSION and EXPECTED_SONAME name the
// build.
#include <dlfcn.h>
#include <link.h>

#include <cstring>

#include "support.h"

namespace {

bool is_loaded(const char* soname) {
  void* handle = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

TEST(Soname, IsTheOneLinkedAgainst) {
  EXPECT_TRUE(is_loaded("libamdhip64.so." EXPECTED_SONAME));
  EXPECT_FALSE(is_loaded("libamdhip64.so.5"));
}

TEST(Soname, DecidesTheVersion) {
  int version = 0;
  HIP_OK(hipRuntimeGetVersion(&version));
  EXPECT_EQ(version, EXPECTED_VERSION);
  char* bytes = device_bytes(16);
  hipPointerAttribute_t attributes;
  HIP_OK(hipPointerGetAttributes(&attributes, bytes));
  EXPECT_EQ(static_cast<int>(attributes.memoryType), 2) << "hipMemoryTypeDevice from HIP 6 on";
  HIP_OK(hipFree(bytes));
}

TEST(Soname, ComesWithHiprtc) {
  void* library = dlopen("libhiprtc.so." EXPECTED_SONAME, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  using Version = int (*)(int*, int*);
  const auto own = reinterpret_cast<Version>(dlsym(library, "hiprtcVersion"));
  const auto runtime = reinterpret_cast<Version>(dlsym(RTLD_DEFAULT, "hiprtcVersion"));
  ASSERT_NE(own, nullptr);
  EXPECT_NE(own, runtime);
  int major[2] = {}, minor[2] = {};
  EXPECT_EQ(own(&major[0], &minor[0]), runtime(&major[1], &minor[1]));
  EXPECT_EQ(major[0], major[1]);
  EXPECT_EQ(dlvsym(library, "hiprtcVersion", "hip_4.2"), nullptr) << "its names have no version";
}

}  // namespace
