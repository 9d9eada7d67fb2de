// policy_fuzz_test.cpp: the fuzzer's entry on seeds of each form and on inputs it once found wanting.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes);

namespace {

void run(const std::string& input) {
  EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size()), 0);
}

const std::vector<std::string>& seeds() {
  static const std::vector<std::string> all = {
      "",
      "0enabled = false\n[pool]\nchunk = '64MiB'\nlimit = \"25%\"\n",
      "0[graph]\nslots = 2\nring_timeout = '30s'\nverify = 'first:3'\nvariant_memory = 1_000\n",
      "0[compile]\ntools = ['clang*', \"lld\"]\nmax = 4\nwait = '2min'\n",
      "0[[buffer]]\nsize = '>=1MiB'\ncallsite_prefix = ['*!_start', '*!main']\ndevice = [0, 1]\nrange = [0, '4K']\n",
      "0[log]\nlevel = '''trace'''\nfile = \"\"\"a\\\nb\"\"\"\n[report]\nfile = \"\\u00e9\\U0001F600\"\n",
      "0a.b.c.d = {x = [1.5, 1e9, inf, nan, 0x1F, 0o7, 0b1, 1979-05-27T07:32:00Z]}",
      "0[pool\n",
      "0[#\n",  // broke an assertion of toml++
      "0\xcf\xa6"
      "5ffer",  // reached its "unreachable"
      "0a = \"\"\"\\\n\xc3\xa9\"\"\"\n",
      "1[2GRA\"OOL_BA\xef\xb8\xbf"  // took it for more of the number
      "CK",
      "0\xef\xbb\xbf[pool]\r\nlarge = 1\r\n",
      "1[{size = '1MiB..64MiB', stage = 'always', role = 'out', full = true}, {slots = 0}]",
      "1 \n [\n {order = '0..7'} ]",
      "1[[buffer]]\naction = 'pass'\nmodule = 'lib*'\n",
      "2\x03"
      "64MiB",
      "2\x1d"
      "clang*,,lld",
      "3POOL_CHUNK=1\nGRAPH_SLOTS=2\nREPORT=%p\nBUFFERS=[{}]\nPOLICI=x\n\n[pool]\nlarge = 5\n",
      "3ENABLED=maybe\nENABLED\n=\n",
  };
  return all;
}

TEST(PolicyFuzz, Seeds) {
  for (const std::string& seed : seeds()) run(seed);
}

TEST(PolicyFuzz, SeedsCutShort) {
  for (const std::string& seed : seeds()) {
    for (std::size_t length = 0; length < seed.size(); ++length) run(seed.substr(0, length));
  }
}

TEST(PolicyFuzz, SeedsWithOneByteChanged) {
  for (const std::string& seed : seeds()) {
    for (std::size_t i = 1; i < seed.size(); ++i) {
      for (char byte : {'\0', '\n', '"', '\'', '[', '{', '.', '\\', '\xff', '\x80'}) {
        std::string changed = seed;
        changed[i] = byte;
        run(changed);
      }
    }
  }
}

TEST(PolicyFuzz, DeepOnes) {
  for (const char* part : {"[", "{", "a.", "[[", "{a=", "[{a=", "a={b.c=", "\"\"\"\"", "''''"}) {
    std::string text = "0";
    for (int i = 0; i < 20000; ++i) text += part;
    run(text);
  }
}

}  // namespace
