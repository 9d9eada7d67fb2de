// rtc_test.cpp: hiprtc of the CPU runtime: programs, options, errors, the cache; and its metadata against AMD's.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <sstream>
#include <thread>

#include "../rtc_metadata.h"
#include "../rtc_scan.h"
#include "kernel_support.h"

namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::vector<char>& code) { return std::as_bytes(std::span(code)); }

std::map<std::string, hipfront::ObjectEntry> kernels_of(std::span<const std::byte> object) {
  std::map<std::string, hipfront::ObjectEntry> kernels;
  for (hipfront::ObjectEntry& kernel : hipfront::read_metadata(object)) kernels[kernel.name] = std::move(kernel);
  return kernels;
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_((fs::temp_directory_path() / "rtc_test.XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp");
  }
  ~TemporaryDirectory() { fs::remove_all(path_); }
  fs::path file(const std::string& name) const { return fs::path(path_) / name; }
  std::string path() const { return path_; }

 private:
  std::string path_;
};

/// An environment variable for the life of an object.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before, there_ = true;
    ::setenv(name, value.c_str(), 1);
  }
  ~Setting() { there_ ? ::setenv(name_, before_.c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::string before_;
  bool there_ = false;
};

int count_files(const fs::path& folder) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) count += entry.is_regular_file() ? 1 : 0;
  return count;
}

TEST(Rtc, ErrorsAreInTheLogWithTheProgramsName) {
  const Compiled compiled =
      compile({"shop.hip", "extern \"C\" __global__ void f(int* p) {\n  p[0] = nonsense;\n}\n", {}});
  EXPECT_EQ(HIPRTC_ERROR_COMPILATION, compiled.result);
  EXPECT_NE(std::string::npos, compiled.log.find("shop.hip:2:")) << compiled.log;
  EXPECT_NE(std::string::npos, compiled.log.find("nonsense")) << compiled.log;
}

TEST(Rtc, ADeviceFunctionThatIsNowhereIsAnError) {
  const Compiled compiled = compile(
      {"k", "__device__ int nowhere(int);\nextern \"C\" __global__ void f(int* p) { p[0] = nowhere(1); }\n", {}});
  EXPECT_EQ(HIPRTC_ERROR_COMPILATION, compiled.result);
  EXPECT_NE(std::string::npos, compiled.log.find("nowhere")) << compiled.log;
}

TEST(Rtc, NameExpressionsThatNameNothing) {
  const Compiled compiled = compile({"k", "extern \"C\" __global__ void f(int* p) { p[0] = 1; }", {"missing<int>"}});
  EXPECT_EQ(HIPRTC_ERROR_COMPILATION, compiled.result);
  EXPECT_NE(std::string::npos, compiled.log.find("missing")) << compiled.log;
}

TEST(Rtc, CallsInTheWrongOrder) {
  hiprtcProgram program = nullptr;
  ASSERT_EQ(HIPRTC_SUCCESS, hiprtcCreateProgram(&program, kernel_source("waiting").text, "k", 0, nullptr, nullptr));
  const char* lowered = nullptr;
  EXPECT_EQ(HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION, hiprtcGetLoweredName(program, "store", &lowered));
  ASSERT_EQ(HIPRTC_SUCCESS, hiprtcAddNameExpression(program, "store"));
  ASSERT_EQ(HIPRTC_SUCCESS, hiprtcCompileProgram(program, 0, nullptr));
  EXPECT_EQ(HIPRTC_SUCCESS, hiprtcGetLoweredName(program, "store", &lowered));
  EXPECT_STREQ("store", lowered);
  EXPECT_EQ(HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID, hiprtcGetLoweredName(program, "gate", &lowered));
  EXPECT_EQ(HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION, hiprtcAddNameExpression(program, "gate"));
  EXPECT_EQ(HIPRTC_SUCCESS, hiprtcDestroyProgram(&program));
  EXPECT_EQ(HIPRTC_ERROR_INVALID_PROGRAM, hiprtcDestroyProgram(&program));
  EXPECT_EQ(HIPRTC_ERROR_INVALID_PROGRAM, hiprtcCompileProgram(program, 0, nullptr));
  EXPECT_EQ(HIPRTC_ERROR_INVALID_INPUT, hiprtcCreateProgram(nullptr, "", "k", 0, nullptr, nullptr));
  EXPECT_STREQ("HIPRTC_ERROR_COMPILATION", hiprtcGetErrorString(HIPRTC_ERROR_COMPILATION));
  int major = 0, minor = -1;
  EXPECT_EQ(HIPRTC_SUCCESS, hiprtcVersion(&major, &minor));
  EXPECT_EQ(9, major);
  EXPECT_EQ(0, minor);
}

TEST(Rtc, OptionsHeadersAndFolders) {
  const TemporaryDirectory folder;
  std::ofstream(folder.file("folder.h")) << "#define FROM_FOLDER 4\n";
  const char* text =
      "#include <hip/hip_runtime.h>\n#include \"given.h\"\n#include <sub/other.h>\n#include \"folder.h\"\n"
      "extern \"C\" __global__ void f(int* p) { p[0] = ONE + TWO + GIVEN + OTHER + FROM_FOLDER; }\n";
  const char* headers[] = {"#define GIVEN 8\n", "#define OTHER 16\n"};
  const char* names[] = {"given.h", "sub/other.h"};
  const std::string include = "-I" + folder.path();
  const char* options[] = {
      "-DONE=1",          "-D",   "TWO=2", include.c_str(), "-O3", "-std=c++14", "--offload-arch=gfx90a",
      "-fno-such-option", "-Wall"};
  const auto run = [&] {
    hiprtcProgram program = nullptr;
    EXPECT_EQ(HIPRTC_SUCCESS, hiprtcCreateProgram(&program, text, "k", 2, headers, names));
    EXPECT_EQ(HIPRTC_SUCCESS, hiprtcCompileProgram(program, static_cast<int>(std::size(options)), options));
    std::size_t size = 0;
    hiprtcGetCodeSize(program, &size);
    std::vector<char> code(size);
    hiprtcGetCode(program, code.data());
    hiprtcDestroyProgram(&program);
    hipModule_t module = nullptr;
    EXPECT_EQ(hipSuccess, hipModuleLoadData(&module, code.data()));
    hipFunction_t function = nullptr;
    EXPECT_EQ(hipSuccess, hipModuleGetFunction(&function, module, "f"));
    const Buffer<int> out(1);
    int* pointer = out.data();
    void* params[] = {&pointer};
    EXPECT_EQ(hipSuccess, hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    const int value = out.read()[0];
    EXPECT_EQ(hipSuccess, hipModuleUnload(module));
    return value;
  };
  EXPECT_EQ(31, run());
  std::ofstream(folder.file("folder.h")) << "#define FROM_FOLDER 32\n";  // no stale object from the cache
  EXPECT_EQ(59, run());
}

TEST(Rtc, HeadersMustNotLeaveTheProgram) {
  const char* header = "";
  const char* name = "../outside.h";
  hiprtcProgram program = nullptr;
  ASSERT_EQ(HIPRTC_SUCCESS, hiprtcCreateProgram(&program, "", "k", 1, &header, &name));
  EXPECT_EQ(HIPRTC_ERROR_COMPILATION, hiprtcCompileProgram(program, 0, nullptr));
  std::size_t size = 0;
  hiprtcGetProgramLogSize(program, &size);
  std::string log(size, '\0');
  hiprtcGetProgramLog(program, log.data());
  EXPECT_NE(std::string::npos, log.find("../outside.h")) << log;
  EXPECT_EQ(HIPRTC_SUCCESS, hiprtcDestroyProgram(&program));
}

TEST(Rtc, TheCacheServesTheSameBytes) {
  const TemporaryDirectory folder;
  const Setting cache("CPUHIP_CACHE", folder.file("cache").string());
  const Compiled first = compile(kernel_source("templates"));
  ASSERT_EQ(HIPRTC_SUCCESS, first.result);
  EXPECT_EQ(1, count_files(folder.file("cache")));
  const Setting compiler("CPUHIP_COMPILER", "/bin/false");
  EXPECT_EQ(HIPRTC_ERROR_COMPILATION, compile(kernel_source("templates")).result);  // the compiler is part of the key
  EXPECT_EQ(1, count_files(folder.file("cache")));
}

TEST(Rtc, WithoutACompilerTheLogSaysSo) {
  const TemporaryDirectory folder;
  const Setting cache("CPUHIP_CACHE", folder.file("cache").string());
  const Setting path("PATH", folder.path());
  const Compiled compiled = compile(kernel_source("waiting"));
  EXPECT_EQ(HIPRTC_ERROR_COMPILATION, compiled.result);
  EXPECT_NE(std::string::npos, compiled.log.find("CPUHIP_COMPILER")) << compiled.log;
}

TEST(Rtc, ManyProcessesFillOneCache) {
  const TemporaryDirectory folder;
  const Setting cache("CPUHIP_CACHE", folder.file("cache").string());
  std::vector<std::FILE*> children;
  for (int i = 0; i < 4; ++i) {
    const KernelSource& source = kernel_source(i % 2 == 0 ? "waiting" : "devices");
    std::ofstream(folder.file(source.name)) << source.text;
    const std::string output = folder.file("object" + std::to_string(i)).string();
    const std::string command = std::string(CPUHIP_CC) + " " + folder.file(source.name).string() + " -o " + output;
    children.push_back(::popen(command.c_str(), "r"));
    ASSERT_NE(nullptr, children.back());
  }
  for (std::FILE* child : children) EXPECT_EQ(0, ::pclose(child));
  for (int i = 0; i < 4; ++i) {
    std::ifstream in(folder.file("object" + std::to_string(i)), std::ios::binary);
    const std::vector<char> code(std::istreambuf_iterator<char>(in), {});
    EXPECT_TRUE(kernels_of(bytes_of(code)).contains(i % 2 == 0 ? "gate" : "bump"));
  }
  EXPECT_EQ(2, count_files(folder.file("cache")));
}

TEST(Rtc, ProgramsCompileInParallelUpToHip5) {
  const TemporaryDirectory folder;
  const Setting cache("CPUHIP_CACHE", folder.file("cache").string());
  const std::string log = folder.file("log").string(), compiler = folder.file("compiler").string();
  // A compiler that begins by waiting for another one, at most a minute.
  std::ofstream(compiler) << "#!/bin/sh\n"
                             "case \"$*\" in *-E*)\n"
                             "  echo begin >> " +
                                 log +
                                 "\n"
                                 "  i=0\n"
                                 "  while [ $i -lt 600 ]; do\n"
                                 "    [ $(grep -c begin " +
                                 log + ") -ge 2 ] && echo together >> " + log +
                                 " && break\n"
                                 "    sleep 0.1; i=$((i + 1))\n"
                                 "  done;;\n"
                                 "esac\n"
                                 "exec c++ \"$@\"\n";
  fs::permissions(compiler, fs::perms::owner_all);
  const Setting chosen("CPUHIP_COMPILER", compiler);
  hiprtcResult results[2] = {HIPRTC_ERROR_COMPILATION, HIPRTC_ERROR_COMPILATION};
  std::thread other([&] { results[1] = compile(kernel_source("devices")).result; });
  results[0] = compile(kernel_source("waiting")).result;
  other.join();
  EXPECT_EQ(HIPRTC_SUCCESS, results[0]);
  EXPECT_EQ(HIPRTC_SUCCESS, results[1]);
  std::ifstream in(log);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ("begin\nbegin\ntogether\ntogether\n", text);
}

TEST(Rtc, CompilingTwiceGivesTheSameBytes) {
  const TemporaryDirectory folder;
  Compiled first, second;
  {
    const Setting cache("CPUHIP_CACHE", folder.file("one").string());
    first = compile(kernel_source("barriers"));
  }
  {
    const Setting cache("CPUHIP_CACHE", folder.file("two").string());
    second = compile(kernel_source("barriers"));
  }
  ASSERT_EQ(HIPRTC_SUCCESS, first.result) << first.log;
  EXPECT_EQ(first.code, second.code);
}

TEST(Rtc, PrintingAddsHiddenArguments) {
  const Compiled compiled = compile(kernel_source("printing"));
  ASSERT_EQ(HIPRTC_SUCCESS, compiled.result) << compiled.log;
  const std::string text(compiled.code.begin(), compiled.code.end());
  EXPECT_NE(std::string::npos, text.find("hidden_hostcall_buffer"));
  EXPECT_EQ(2u, kernels_of(bytes_of(compiled.code)).at("say").arguments.size());
}

TEST(Rtc, KernelsAreFoundWhereverTheyStand) {
  const cpuhip::ScannedSource scanned = cpuhip::scan_source(
      "# 1 \"file\"\n"
      "extern \"C\" { __global__ void one(int* p) { if (p) { p[0] = '}'; } } }\n"
      "namespace a::b { inline namespace c { static __global__ __attribute__((noinline)) void two(int); } }\n"
      "namespace { __launch_bounds__(K * (2), 3) __global__ void three(const char* s = \"){;\") { } }\n"
      "template <typename T, int N = (4 > 3)> __global__ void __launch_bounds__(64) four(T* p) { }\n"
      "template __global__ void four<unsigned int, 3>(unsigned*);\n"
      "template <> __global__ void four<char, 1>(char*) {}\n"
      "struct S { void __global__(); };\n"
      "__global__ void one(int* p);\n"
      "const char* raw = R\"x( __global__ void five() { )\" )x\";\n"
      "__device__ void user() { extern __shared__ __attribute__((aligned(16))) unsigned char room[]; room[0] = 1; }\n");
  std::vector<std::string> names;
  for (const auto& kernel : scanned.kernels) names.push_back(kernel.name + " " + kernel.bound);
  EXPECT_EQ((std::vector<std::string>{"one 0", "a::b::c::two 0", "three K * (2)", "four<unsigned int,3> 0"}), names);
  EXPECT_EQ("64", scanned.template_bounds.at("four"));
  EXPECT_NE(std::string::npos, scanned.text.find("unsigned char * const room = reinterpret_cast<unsigned char *>("))
      << scanned.text;
  EXPECT_EQ(std::string::npos, scanned.text.find("extern __shared__"));
}

/// AMD's compiler on one source: the lowered names in order, the code object.
struct AmdCompiled {
  bool there = false;
  std::vector<std::string> lowered;
  std::vector<char> code;
};

AmdCompiled amd_compile(const KernelSource& source, const TemporaryDirectory& folder) {
  std::ofstream(folder.file("source.hip")) << source.text;
  std::string command = std::string("'") + AMD_HIPRTC + "' '" + folder.file("object").string() + "'";
  for (const std::string& expression : source.expressions) command += " '" + expression + "'";
  command += " < '" + folder.file("source.hip").string() + "'";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen");
  std::string output;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
  const int status = ::pclose(pipe);
  AmdCompiled compiled;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return compiled;
  if (status != 0) throw std::runtime_error("AMD's hipRTC refuses " + std::string(source.name));
  compiled.there = true;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) compiled.lowered.push_back(line);
  std::ifstream in(folder.file("object"), std::ios::binary);
  compiled.code.assign(std::istreambuf_iterator<char>(in), {});
  return compiled;
}

class AgainstAmd : public testing::TestWithParam<std::size_t> {};

TEST_P(AgainstAmd, SameNamesAndArguments) {
  const KernelSource& source = kernel_sources()[GetParam()];
  const TemporaryDirectory folder;
  const AmdCompiled amd = amd_compile(source, folder);
  if (!amd.there) GTEST_SKIP() << "AMD's libamdhip64.so.5 is not installed";
  const Compiled ours = compile(source);
  ASSERT_EQ(HIPRTC_SUCCESS, ours.result) << ours.log;
  ASSERT_EQ(source.expressions.size(), amd.lowered.size());
  for (std::size_t i = 0; i < amd.lowered.size(); ++i)
    EXPECT_EQ(amd.lowered[i], ours.lowered.at(source.expressions[i])) << source.expressions[i];
  const auto theirs = kernels_of(bytes_of(amd.code)), mine = kernels_of(bytes_of(ours.code));
  EXPECT_FALSE(theirs.empty());
  ASSERT_EQ(theirs.size(), mine.size());
  for (const auto& [name, kernel] : theirs) {
    ASSERT_TRUE(mine.contains(name)) << name;
    const hipfront::ObjectEntry& own = mine.at(name);
    ASSERT_EQ(kernel.arguments.size(), own.arguments.size()) << name;
    for (std::size_t i = 0; i < own.arguments.size(); ++i) {
      EXPECT_EQ(kernel.arguments[i].offset, own.arguments[i].offset) << name << " argument " << i;
      EXPECT_EQ(kernel.arguments[i].bytes, own.arguments[i].bytes) << name << " argument " << i;
      EXPECT_EQ(kernel.arguments[i].pointer, own.arguments[i].pointer) << name << " argument " << i;
    }
    EXPECT_EQ(kernel.args_align, own.args_align) << name;
    EXPECT_EQ(kernel.max_threads, own.max_threads) << name;
    EXPECT_EQ(kernel.static_shared_bytes, own.static_shared_bytes) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Sources, AgainstAmd, testing::Range(std::size_t{0}, kernel_sources().size()),
                         [](const auto& info) { return kernel_sources()[info.param].name; });

}  // namespace
