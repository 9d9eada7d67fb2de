#include "kernels.h"

#include <elf.h>
#include <hip/hiprtc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>

extern "C" {
void** __hipRegisterFatBinary(const void* data);
void __hipRegisterFunction(void** modules, const void* host_function, char* device_function, const char* device_name,
                           unsigned thread_limit, void* tid, void* bid, void* block, void* grid, int* warp);
}

namespace property {
namespace {

constexpr const char* kSource = R"(
  struct Pad { char c; int a; short s; long long b; char d; };
  struct In { char c; int* p; short s; int a; };
  #define I int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)
  extern "C" __global__ void mix(int* p, int n, int a) { I p[i] = p[i] * 31 + a; }
  extern "C" __global__ void set(int* p, int n, int a) { I p[i] = a + i; }
  extern "C" __global__ void join(int* p, const int* q, int n) { I p[i] = p[i] * 17 + q[i]; }
  extern "C" __global__ void padded(int* p, int n, Pad x) { I p[i] = p[i] * 29 + x.c + x.a + x.s + (int)x.b + x.d; }
  extern "C" __global__ void inner(In x, int n) { I x.p[i] = x.p[i] * 23 + x.c + x.s + x.a; }
  extern "C" __global__ void shared(int* p, int n, int a) {
    extern __shared__ int line[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    line[threadIdx.x] = i < n ? p[i] : 0;
    __syncthreads();
    if (i < n) p[i] = p[i] * 3 + line[blockDim.x - 1 - threadIdx.x] + a;
  }
  extern "C" __global__ void wide(int* p, int n, char a, double d, short s, float f) {
    I p[i] = p[i] * 13 + a + (int)d + s + (int)f;
  }
  extern "C" __global__ void slow(int* p, int n, int a) {
    if (blockIdx.x == 0 && threadIdx.x == 0) for (volatile int k = 0; k < 100000; ++k) {}
    I p[i] = p[i] * 19 + a;
  }
  extern "C" __global__ void nothing() {}
  extern "C" __global__ void peer(int* p, int n, unsigned low, unsigned high) {
    const int* q = (const int*)(((unsigned long long)(high ^ 0x5A5A5A5Au) << 32) | (low ^ 0xC3C3C3C3u));
    I p[i] = p[i] * 11 + q[i];
  }
)";
constexpr const char* kNames[] = {"mix", "set", "join", "padded", "inner", "shared", "wide", "slow", "nothing", "peer"};
static_assert(std::size(kNames) == Work::Nothing + 2);

constexpr const char* kModuleSource = R"(
  #define I int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)
  extern "C" __global__ void mix(int* p, int n, int a) { I p[i] = p[i] * FACTOR + a; }
)";

struct Pad {
  char c;
  int a;
  short s;
  long long b;
  char d;
};
struct In {
  char c;
  int* p;
  short s;
  int a;
};

void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "cannot set up: %s\n", what);
  std::exit(2);
}

/// Noise in all bytes, so that what members leave free keeps it.
template <typename Struct>
void noise(Struct* value) {
  static thread_local std::minstd_rand random(std::random_device{}());
  for (std::size_t i = 0; i < sizeof *value; ++i)
    reinterpret_cast<unsigned char*>(value)[i] = static_cast<unsigned char>(random() >> 8);
}

/// The code object of a source.
std::vector<char> compiled(const char* source) {
  hiprtcProgram program;
  must(hiprtcCreateProgram(&program, source, "property.hip", 0, nullptr, nullptr) == HIPRTC_SUCCESS,
       "hiprtcCreateProgram");
  must(hiprtcCompileProgram(program, 0, nullptr) == HIPRTC_SUCCESS, "hiprtcCompileProgram");
  std::size_t bytes = 0;
  must(hiprtcGetCodeSize(program, &bytes) == HIPRTC_SUCCESS, "hiprtcGetCodeSize");
  std::vector<char> code(bytes);
  must(hiprtcGetCode(program, code.data()) == HIPRTC_SUCCESS, "hiprtcGetCode");
  must(hiprtcDestroyProgram(&program) == HIPRTC_SUCCESS, "hiprtcDestroyProgram");
  return code;
}

}  // namespace

std::size_t Kernels::place(std::int64_t what) {
  return static_cast<std::size_t>(what == Work::Peer ? Work::Nothing + 1 : what);
}

const std::vector<char>& Kernels::module_code(std::int64_t variant) {
  static auto& codes = *new std::map<std::int64_t, std::vector<char>>;
  std::vector<char>& code = codes[variant];
  if (code.empty()) {
    const std::string factor = "#define FACTOR " + std::to_string(37 + 4 * variant);
    code = compiled((factor + kModuleSource).c_str());
  }
  return code;
}

Kernels::Kernels() {
  const std::vector<char> code = compiled(kSource);
  register_stubs(code);
  int devices = 0;
  must(hipGetDeviceCount(&devices) == hipSuccess && devices > 0, "hipGetDeviceCount");
  functions_.resize(static_cast<std::size_t>(devices));
  for (int device = 0; device < devices; ++device) {
    hipModule_t module;
    must(hipSetDevice(device) == hipSuccess, "hipSetDevice");
    must(hipModuleLoadData(&module, code.data()) == hipSuccess, "hipModuleLoadData");
    for (const char* name : kNames) {
      hipFunction_t function = nullptr;
      must(hipModuleGetFunction(&function, module, name) == hipSuccess, "hipModuleGetFunction");
      functions_[static_cast<std::size_t>(device)].push_back(function);
    }
  }
  must(hipSetDevice(0) == hipSuccess, "hipSetDevice");
}

const void* Kernels::stub(std::int64_t what) {
  static const char stubs[std::size(kNames)] = {};
  return stubs + place(what);
}

namespace {

/// What a bundle calls code for such devices. For AMD's the low byte of the ELF header's flags says for which.
std::string target_of(const std::vector<char>& code) {
  Elf64_Ehdr header;
  must(code.size() >= sizeof header, "a code object");
  std::memcpy(&header, code.data(), sizeof header);
  if (header.e_machine == EM_X86_64) return "hipv4-x86_64-unknown-linux-gnu--cpu";
  static const std::map<unsigned, std::string> kNames{{0x2c, "gfx900"}, {0x2f, "gfx906"}, {0x30, "gfx908"},
                                                      {0x3f, "gfx90a"}, {0x4c, "gfx942"}, {0x4f, "gfx950"}};
  const auto name = kNames.find(header.e_flags & 0xff);
  must(name != kNames.end(), "the name of such a device");
  return "hipv4-amdgcn-amd-amdhsa--" + name->second;
}

}  // namespace

/// Never unregistered, as in a program that ends by exit.
void Kernels::register_stubs(const std::vector<char>& code) {
  const std::string target = target_of(code), magic = "__CLANG_OFFLOAD_BUNDLE__";
  constexpr std::uint64_t kAt = 4096;
  const std::uint64_t header[] = {1, kAt, code.size(), target.size()};
  const auto* const words = reinterpret_cast<const char*>(header);
  image_.assign(magic.begin(), magic.end());
  image_.insert(image_.end(), words, words + sizeof header);
  image_.insert(image_.end(), target.begin(), target.end());
  image_.resize(kAt);
  image_.insert(image_.end(), code.begin(), code.end());
  static struct {
    unsigned magic = 0x48495046, version = 1;
    const void* binary = nullptr;
    void* unused = nullptr;
  } wrapper;
  wrapper.binary = image_.data();
  void** const modules = __hipRegisterFatBinary(&wrapper);
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    std::string name = kNames[i];
    __hipRegisterFunction(modules, stub(i <= Work::Nothing ? static_cast<std::int64_t>(i) : Work::Peer), name.data(),
                          kNames[i], ~0u, nullptr, nullptr, nullptr, nullptr, nullptr);
  }
}

template <typename Value>
void Arguments::add(const Value& value) {
  used_ = (used_ + alignof(Value) - 1) / alignof(Value) * alignof(Value);
  std::memcpy(bytes_ + used_, &value, sizeof value);
  pointers_.push_back(bytes_ + used_);
  used_ += sizeof value;
}

Arguments::Arguments(const Work& work, int* dst, const int* src, int count) {
  noise(&bytes_);
  const int value = static_cast<int>(work.value);
  switch (work.what) {
    case Work::Mix:
    case Work::Set:
    case Work::Shared:
    case Work::Slow:
      add(dst), add(count), add(value);
      break;
    case Work::Join:
      add(dst), add(src), add(count);
      break;
    case Work::Peer: {
      const auto address = reinterpret_cast<std::uintptr_t>(src);
      add(dst), add(count), add(static_cast<unsigned>(address) ^ 0xC3C3C3C3u),
          add(static_cast<unsigned>(address >> 32) ^ 0x5A5A5A5Au);
      break;
    }
    case Work::Padded: {
      Pad pad;
      noise(&pad);
      pad.c = 3, pad.a = value, pad.s = 5, pad.b = value + 7, pad.d = 11;
      add(dst), add(count), add(pad);
      break;
    }
    case Work::Inner: {
      In in;
      noise(&in);
      in.c = 3, in.p = dst, in.s = 5, in.a = value;
      add(in), add(count);
      break;
    }
    case Work::Wide:
      add(dst), add(count), add(static_cast<char>(value % 100)), add(value * 1.5),
          add(static_cast<short>(value % 1000)), add(static_cast<float>(value));
      break;
    default:
      break;
  }
}

Arguments::~Arguments() {
  scribble(bytes_, sizeof bytes_);
  scribble(pointers_.data(), pointers_.size() * sizeof(void*));
  scribble(extra_, sizeof extra_);
}

void scribble(void* memory, std::size_t bytes) {
  if (bytes != 0) std::memset(memory, 0xA5, bytes);
  asm volatile("" : : "r"(memory) : "memory");  // what ends its life is overwritten, too
}

void** Arguments::extra() {
  extra_[0] = HIP_LAUNCH_PARAM_BUFFER_POINTER;
  extra_[1] = bytes_;
  extra_[2] = HIP_LAUNCH_PARAM_BUFFER_SIZE;
  extra_[3] = &used_;
  extra_[4] = HIP_LAUNCH_PARAM_END;
  return extra_;
}

}  // namespace property
