#include "tests/probes/probe.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace probes {
namespace {

constexpr const char* kSource = R"(
extern "C" __global__ void put(int* at, int value) { *at = value; }
extern "C" __global__ void add(int* at, int value) { *at += value; }
)";

void compiles(hiprtcResult result, const char* call) {
  if (result != HIPRTC_SUCCESS) throw Unknown(std::string(call) + ": " + hip::hiprtcGetErrorString(result));
}

std::vector<char> compile() {
  hiprtcProgram program = nullptr;
  compiles(hip::hiprtcCreateProgram(&program, kSource, "probes.hip", 0, nullptr, nullptr), "hiprtcCreateProgram");
  compiles(hip::hiprtcCompileProgram(program, 0, nullptr), "hiprtcCompileProgram");
  std::size_t bytes = 0;
  compiles(hip::hiprtcGetCodeSize(program, &bytes), "hiprtcGetCodeSize");
  std::vector<char> code(bytes);
  compiles(hip::hiprtcGetCode(program, code.data()), "hiprtcGetCode");
  compiles(hip::hiprtcDestroyProgram(&program), "hiprtcDestroyProgram");
  return code;
}

hipModule_t load() {
  hipModule_t module = nullptr;
  WORKS(hip::hipModuleLoadData(&module, compiled_code().data()));
  hipFunction_t put = nullptr;
  WORKS(hip::hipModuleGetFunction(&put, module, "put"));
  const Stream stream;
  const Word word;
  WORKS(KernelCall(put, word.at(), 7).launch(stream));
  stream.wait();
  if (word.value() != 7) throw Unknown("kernels do not run");
  return module;
}

}  // namespace

std::string error_name(hipError_t error) { return hip::hipGetErrorName(error); }

void works(hipError_t result, const char* call) {
  if (result == hipSuccess) return;
  const std::string text(call);
  const std::size_t first = text.rfind("hip::", 0) == 0 ? 5 : 0;
  throw Unknown(text.substr(first, text.find('(') - first) + ": " + error_name(result));
}

int runtime_version() {
  int version = 0;
  WORKS(hip::hipRuntimeGetVersion(&version));
  return version;
}

void needs_device_work() {
  const Word word, copy;
  WORKS(hip::hipMemset(word.at(), 3, sizeof(int)));
  WORKS(hip::hipMemcpy(copy.at(), word.at(), sizeof(int), hipMemcpyDeviceToDevice));
  if (copy.value() != 0x03030303) throw Unknown("fills and copies do nothing");
}

Stream::~Stream() {
  if (stream_ != nullptr) static_cast<void>(hip::hipStreamDestroy(stream_));
}

Word::Word() {
  WORKS(hip::hipMalloc(reinterpret_cast<void**>(&at_), kBytes));
  set(0);
}
Word::~Word() { static_cast<void>(hip::hipFree(at_)); }
int Word::value() const {
  int value = 0;
  WORKS(hip::hipMemcpy(&value, at_, sizeof value, hipMemcpyDeviceToHost));
  return value;
}
void Word::set(int value) const { WORKS(hip::hipMemcpy(at_, &value, sizeof value, hipMemcpyHostToDevice)); }

const std::vector<char>& compiled_code() {
  static const std::vector<char> code = compile();
  return code;
}

hipFunction_t kernel_named(const char* name) {
  static const hipModule_t module = load();
  hipFunction_t function = nullptr;
  WORKS(hip::hipModuleGetFunction(&function, module, name));
  return function;
}

hipError_t KernelCall::launch(hipStream_t stream) {
  return hip::hipModuleLaunchKernel(function_, 1, 1, 1, 1, 1, 1, 0, stream, arguments_, nullptr);
}

hipKernelNodeParams KernelCall::node_params() {
  hipKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(function_);
  params.gridDim = params.blockDim = dim3(1);
  params.kernelParams = arguments_;
  return params;
}

void KernelCall::scribble() {
  static int elsewhere = 0;
  static int* nowhere = &elsewhere;
  value_ = -1;
  arguments_[0] = &nowhere;
  arguments_[1] = &elsewhere;
}

hipMemsetParams fill_params(int* at, int value) {
  hipMemsetParams params{};
  params.dst = at;
  params.elementSize = sizeof(int);
  params.value = static_cast<unsigned>(value);
  params.width = 1;
  params.height = 1;
  params.pitch = sizeof(int);
  return params;
}

hipGraph_t capture(hipStream_t stream, const std::function<void()>& calls) {
  WORKS(hip::hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  calls();
  hipGraph_t graph = nullptr;
  WORKS(hip::hipStreamEndCapture(stream, &graph));
  return graph;
}

std::vector<hipGraphNode_t> nodes_of(hipGraph_t graph) {
  std::size_t count = 0;
  WORKS(hip::hipGraphGetNodes(graph, nullptr, &count));
  std::vector<hipGraphNode_t> nodes(count);
  if (count > 0) WORKS(hip::hipGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

hipGraphExec_t instantiate(hipGraph_t graph) {
  hipGraphExec_t exec = nullptr;
  WORKS(hip::hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  return exec;
}

void run(hipGraphExec_t exec, hipStream_t stream) {
  WORKS(hip::hipGraphLaunch(exec, stream));
  WORKS(hip::hipStreamSynchronize(stream));
}

/// Outlives who made it: the runtime calls back when it likes. Never destroyed.
struct Blocked::State {
  std::atomic<bool> started{false}, released{false};
};

void Blocked::wait_for_release(void* given) {
  auto* const state = static_cast<State*>(given);
  state->started = true;
  for (int ms = 0; ms < 5000 && !state->released; ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

Blocked::Blocked(hipStream_t stream, int release_after_ms) : state_(new State) {
  try {
    WORKS(hip::hipLaunchHostFunc(stream, &wait_for_release, state_));
  } catch (const Unknown&) {
    // The first releases have callbacks only.
    static constexpr auto kWait = [](hipStream_t, hipError_t, void* given) { wait_for_release(given); };
    WORKS(hip::hipStreamAddCallback(stream, kWait, state_, 0));
  }
  for (int ms = 0; ms < 5000 && !state_->started; ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (!state_->started) throw Unknown("host functions do not run");
  std::thread([state = state_, release_after_ms] {
    std::this_thread::sleep_for(std::chrono::milliseconds(release_after_ms));
    state->released = true;
  }).detach();
}

Blocked::~Blocked() { state_->released = true; }
bool Blocked::released() const { return state_->released; }

}  // namespace probes
