// Captures the same operations in each of six steps and replays them. In step 3 a plugin that reaches the runtime past
// every preloaded library adds an operation of its own. Argument: the plugin's path.
#include <dlfcn.h>

#include "host.h"

int main(int, char** arguments) {
  hipStream_t stream = nullptr;
  void* data = nullptr;
  say("stream", hipStreamCreate(&stream));
  say("malloc", hipMalloc(&data, 256));
  void* const plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  auto* const add = reinterpret_cast<int (*)(void*, hipStream_t)>(dlsym(plugin, "plugin_add_operation"));
  for (int step = 0; step < 6; ++step) {
    std::printf("step %d\n", step);
    say("begin", hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    say("first", hipMemsetAsync(data, step, 128, stream));
    if (step == 3) say("plugin", add(static_cast<char*>(data) + 192, stream));
    say("second", hipMemsetAsync(static_cast<char*>(data) + 128, step + 1, 64, stream));
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    const hipError_t ended = hipStreamEndCapture(stream, &graph);
    say("end", ended);
    if (ended != hipSuccess) {
      say("graph", graph != nullptr);
      continue;
    }
    say("instantiate", hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    say("launch", hipGraphLaunch(exec, stream));
    say("synchronise", hipStreamSynchronize(stream));
    unsigned char bytes[256];
    say("copy", hipMemcpy(bytes, data, 256, hipMemcpyDeviceToHost));
    std::printf("data %d %d\n", bytes[0], bytes[128]);
    say("destroy", hipGraphExecDestroy(exec));
    say("destroy", hipGraphDestroy(graph));
  }
}
