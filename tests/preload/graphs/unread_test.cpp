// Kernels whose code objects the library cannot read: the runtime is asked for their arguments, where it tells them.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "registered.h"

namespace captures {
namespace {

/// Arguments of every size, with gaps between them.
constexpr const char* kSource = R"(
  struct Part { char first; int* in; };
  extern "C" __global__ void weigh(char a, int* out, short b, Part part, int n, double factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = out[i] * 31 + a + b * 3 + part.first * 5 + part.in[i] * (int)factor;
  }
  extern "C" __global__ void touch() {}
)";

int weighed(int value, char a, short b, char first, int in, double factor) {
  const auto word = [](int signed_value) { return static_cast<unsigned>(signed_value); };
  return static_cast<int>(word(value) * 31 + word(a + b * 3 + first * 5) + word(in) * word(static_cast<int>(factor)));
}

struct Part {
  char first;
  int* in;
};

/// A bundle with one entry before that for the CPU.
std::string bundled(const std::string& first_id) {
  const std::vector<char> code = compiled_code(kSource);
  const std::string magic = "__CLANG_OFFLOAD_BUNDLE__", target = "hipv4-x86_64-unknown-linux-gnu--cpu";
  constexpr std::uint64_t kAt = 16384;
  std::string image = magic;
  const auto add = [&image](std::uint64_t word) { image.append(reinterpret_cast<const char*>(&word), sizeof word); };
  add(2);
  add(kAt), add(0), add(first_id.size());
  image += first_id;
  add(kAt), add(code.size()), add(target.size());
  image += target;
  image.resize(kAt);
  return image.append(code.begin(), code.end());
}

/// Its code is in a file, which only the runtime knows how to find.
class Elsewhere {
 public:
  Elsewhere() : file_("unread_" + std::to_string(getpid())) {
    std::ofstream(file_, std::ios::binary) << bundled("host-x86_64-unknown-linux");
    wrapper_.binary = file_.c_str();
    handle_ = __hipRegisterFatBinary(&wrapper_);
    add(&weigh_, "weigh");
    add(&touch_, "touch");
  }
  ~Elsewhere() {
    __hipUnregisterFatBinary(handle_);
    unlink(file_.c_str());
  }
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;

  /// Whether the runtime knows such wrappers.
  bool known() const { return handle_ != nullptr; }
  const void* weigh() const { return &weigh_; }
  const void* touch() const { return &touch_; }

 private:
  void add(const void* stub, std::string name) {
    __hipRegisterFunction(handle_, stub, name.data(), name.c_str(), ~0u, nullptr, nullptr, nullptr, nullptr, nullptr);
  }

  const std::string file_;
  struct {
    unsigned magic = 0x4B504948, version = 1;
    const void* binary = nullptr;
    void* unused = nullptr;
  } wrapper_;
  void** handle_ = nullptr;
  char weigh_ = 0, touch_ = 0;
};

/// Whether the runtime tells arguments; natively nobody asks.
bool told() { return under_library() && std::getenv("TOLD") != nullptr; }

struct Weights {
  char a = 1;
  short b = 2;
  char first = 3;
  double factor = 4;
};

/// Launches by a stub, or a function, with arguments that are gone when it returns.
template <typename Launch>
void weigh(const Launch& launch, int* out, const int* in, const Weights& weights) {
  Weights w = weights;
  Part part{w.first, const_cast<int*>(in)};
  int n = kCount;
  void* args[] = {&w.a, &out, &w.b, &part, &n, &w.factor};
  OK(launch(args));
}

class Unread : public testing::Test {
 protected:
  /// Steps whose buffers move and whose values change, each alone. Returns how many launches reached the runtime.
  template <typename Launch>
  int steps(const char* launched_by, const Launch& launch) {
    const Since since({launched_by});
    std::vector<std::unique_ptr<Buffer>> kept;  // so that buffers move
    for (int i = 0; i < 12; ++i) {
      kept.push_back(std::make_unique<Buffer>());
      const Buffer out, in;
      EXPECT_EQ(hipSuccess, kernels().mix(stream_, in.get(), kCount, i + 1));
      Weights w;
      if (i % 6 == 1) w.a = static_cast<char>(i);
      if (i % 6 == 2) w.b = static_cast<short>(-i);
      if (i % 6 == 3) w.first = static_cast<char>(i);
      if (i % 6 == 4) w.factor = i;
      step(stream_, [&] { weigh(launch, out.get(), in.get(), w); });
      EXPECT_EQ(weighed(0, w.a, w.b, w.first, i + 1, w.factor), out.value()) << i;
      EXPECT_EQ(i + 1, in.value());
    }
    return since[launched_by];
  }

  const Stream stream_;
};

TEST_F(Unread, kernels_of_binaries_elsewhere_are_compared) {
  const Elsewhere elsewhere;
  if (!elsewhere.known()) GTEST_SKIP() << "this runtime has none";
  const auto by_stub = [&](void** args) {
    return hipLaunchKernel(elsewhere.weigh(), {2, 1, 1}, {64, 1, 1}, args, 0, stream_);
  };
  EXPECT_EQ(told() ? 1 : 12, steps("hipLaunchKernel", by_stub));
  const Since since({"hipLaunchKernel"});
  for (int i = 0; i < 4; ++i)
    step(stream_, [&] { OK(hipLaunchKernel(elsewhere.touch(), {1, 1, 1}, {1, 1, 1}, nullptr, 0, stream_)); });
  EXPECT_EQ(told() ? 1 : 4, since["hipLaunchKernel"]);
}

/// A bundle that the runtime reads and the library does not believe.
class Module {
 public:
  Module() {
    EXPECT_EQ(hipSuccess, hipModuleLoadData(&module_, bundled(std::string(5000, 'x')).data()));
    EXPECT_EQ(hipSuccess, hipModuleGetFunction(&weigh_, module_, "weigh"));
  }
  ~Module() { EXPECT_EQ(hipSuccess, hipModuleUnload(module_)); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Asked for again each time, as programs do.
  hipError_t operator()(hipStream_t stream, void** args) const {
    hipFunction_t function = nullptr;
    EXPECT_EQ(hipSuccess, hipModuleGetFunction(&function, module_, "weigh"));
    EXPECT_EQ(weigh_, function);
    return hipModuleLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, stream, args, nullptr);
  }
  hipFunction_t function() const { return weigh_; }

 private:
  hipModule_t module_ = nullptr;
  hipFunction_t weigh_ = nullptr;
};

TEST_F(Unread, functions_of_such_modules_are_compared) {
  const Module module;
  EXPECT_EQ(told() ? 1 : 12, steps("hipModuleLaunchKernel", [&](void** args) { return module(stream_, args); }) - 12)
      << "beside one eager launch a step";
}

TEST_F(Unread, arguments_in_one_buffer_are_compared) {
  const Module module;
  for (int i = 0; i < 4; ++i) {
    const Buffer out, in;
    OK(kernels().mix(stream_, in.get(), kCount, 2));
    const Since since({"hipModuleLaunchKernel"});
    struct {
      char a = 1;
      int* out;
      short b = 2;
      Part part;
      int n = kCount;
      double factor = 4;
    } arguments{.out = out.get(), .part = {3, in.get()}};
    std::size_t bytes = sizeof arguments;
    void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     HIP_LAUNCH_PARAM_END};
    step(stream_, [&] { OK(hipModuleLaunchKernel(module.function(), 2, 1, 1, 64, 1, 1, 0, stream_, nullptr, extra)); });
    EXPECT_EQ(weighed(0, 1, 2, 3, 2, 4), out.value());
    EXPECT_EQ(told() && i != 0 ? 0 : 1, since["hipModuleLaunchKernel"]);
  }
}

TEST_F(Unread, a_question_that_fails_leaves_no_argument_out) {
  for (int fails = 1; fails <= 24; ++fails) {
    const Module module;
    for (int i = 0; i < 3; ++i) {
      const Buffer out, in;
      OK(kernels().mix(stream_, in.get(), kCount, i + 1));
      const Weights weights{.factor = static_cast<double>(i)};
      OK(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
      // The launch of the program itself must not fail: the runtime is asked before it.
      if (told() && i == 0) cpuhip_fail(static_cast<unsigned long long>(fails), hipErrorInvalidValue);
      hipGraph_t graph = nullptr;
      Weights w = weights;
      Part part{w.first, in.get()};
      int* to = out.get();
      int n = kCount;
      void* args[] = {&w.a, &to, &w.b, &part, &n, &w.factor};
      const hipError_t launched =
          hipModuleLaunchKernel(module.function(), 2, 1, 1, 64, 1, 1, 0, stream_, args, nullptr);
      cpuhip_fail(0, hipSuccess);
      if (launched != hipSuccess) static_cast<void>(hipGetLastError());
      OK(hipStreamEndCapture(stream_, &graph));
      run(stream_, graph);
      if (launched == hipSuccess) {
        EXPECT_EQ(weighed(0, w.a, w.b, w.first, i + 1, w.factor), out.value()) << fails;
      }
    }
  }
}

TEST_F(Unread, memory_that_only_such_arguments_name_stays_until_a_graph_is_made_real) {
  const Module module;
  for (int i = 0; i < 3; ++i) {
    auto in = std::make_unique<Buffer>();
    const Buffer out;
    OK(kernels().mix(stream_, in->get(), kCount, 2));
    const hipGraph_t graph =
        capture(stream_, [&] { weigh([&](void** args) { return module(stream_, args); }, out.get(), in->get(), {}); });
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, stream_));
    in.reset();
    EXPECT_EQ(weighed(0, 1, 2, 3, 2, 4), out.value());
    std::size_t nodes = 0;
    OK(hipGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(1u, nodes);
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
  }
}

}  // namespace
}  // namespace captures
