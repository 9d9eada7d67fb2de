// null_runtime.cpp: a HIP runtime that does nothing at once: with it found first, a benchmark of an entry measures the
// library alone, to the nanosecond. Memory is host memory that nobody touches. There is one graph, which has the node
// of the memset captured last: enough for the library to know it.
#include <cstddef>

#define NULL_RUNTIME_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct MemsetParams {
  void* dst;
  unsigned element_bytes;
  std::size_t height, pitch;
  unsigned value;
  std::size_t width;
};

constexpr int kActive = 1, kMemsetNode = 3;
char g_object[8];
void* const kGraph = &g_object[0];
void* g_node = &g_object[1];
bool g_capturing = false;
std::size_t g_nodes = 0;
MemsetParams g_memset{};

}  // namespace

NULL_RUNTIME_EXPORT int hipMalloc(void** pointer, std::size_t bytes) {
  static char memory[64];
  *pointer = memory + bytes % 2;
  return 0;
}
NULL_RUNTIME_EXPORT int hipFree(void*) { return 0; }
NULL_RUNTIME_EXPORT int hipGetDevice(int* device) {
  *device = 0;
  return 0;
}
NULL_RUNTIME_EXPORT int hipSetDevice(int) { return 0; }
NULL_RUNTIME_EXPORT int hipGetDeviceCount(int* count) {
  *count = 1;
  return 0;
}
NULL_RUNTIME_EXPORT int hipGetLastError() { return 0; }
NULL_RUNTIME_EXPORT int hipPeekAtLastError() { return 0; }
NULL_RUNTIME_EXPORT const char* hipGetErrorName(int) { return "hipErrorUnknown"; }
NULL_RUNTIME_EXPORT int hipRuntimeGetVersion(int* version) {
  *version = 50221153;
  return 0;
}
NULL_RUNTIME_EXPORT int hipModuleLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                              unsigned, void*, void**, void**) {
  return 0;
}

NULL_RUNTIME_EXPORT int hipStreamCreate(void** stream) {
  static char objects[4096];
  static std::size_t used = 0;
  *stream = &objects[used += 64];
  return 0;
}
NULL_RUNTIME_EXPORT int hipStreamQuery(void*) { return 0; }
NULL_RUNTIME_EXPORT int hipStreamSynchronize(void*) { return 0; }
NULL_RUNTIME_EXPORT int hipEventCreateWithFlags(void** event, unsigned) {
  *event = &g_object[2];
  return 0;
}
NULL_RUNTIME_EXPORT int hipEventRecord(void*, void*) { return 0; }
NULL_RUNTIME_EXPORT int hipEventQuery(void*) { return 0; }
NULL_RUNTIME_EXPORT int hipEventDestroy(void*) { return 0; }

NULL_RUNTIME_EXPORT int hipThreadExchangeStreamCaptureMode(int*) { return 0; }
NULL_RUNTIME_EXPORT int hipStreamBeginCapture(void*, int) {
  g_capturing = true;
  g_nodes = 0;
  return 0;
}
NULL_RUNTIME_EXPORT int hipStreamIsCapturing(void*, int* status) {
  *status = g_capturing ? kActive : 0;
  return 0;
}
NULL_RUNTIME_EXPORT int hipStreamGetCaptureInfo_v2(void*, int* status, unsigned long long* id, void** graph,
                                                   void* const** dependencies, std::size_t* count) {
  *status = g_capturing ? kActive : 0;
  if (id != nullptr) *id = 1;
  if (graph != nullptr) *graph = kGraph;
  if (dependencies != nullptr) *dependencies = &g_node;
  if (count != nullptr) *count = g_nodes;
  return 0;
}
NULL_RUNTIME_EXPORT int hipMemsetAsync(void* dst, int value, std::size_t bytes, void*) {
  if (!g_capturing) return 0;
  g_nodes = 1;
  g_memset = {dst, 1, 1, bytes, static_cast<unsigned>(value), bytes};
  return 0;
}
NULL_RUNTIME_EXPORT int hipStreamEndCapture(void*, void** graph) {
  g_capturing = false;
  *graph = kGraph;
  return 0;
}
NULL_RUNTIME_EXPORT int hipGraphGetNodes(void*, void**, std::size_t* count) {
  *count = g_nodes;
  return 0;
}
NULL_RUNTIME_EXPORT int hipGraphNodeGetType(void*, int* type) {
  *type = kMemsetNode;
  return 0;
}
NULL_RUNTIME_EXPORT int hipGraphMemsetNodeGetParams(void*, MemsetParams* params) {
  *params = g_memset;
  return 0;
}
NULL_RUNTIME_EXPORT int hipGraphNodeGetDependencies(void*, void**, std::size_t* count) {
  *count = 0;
  return 0;
}
NULL_RUNTIME_EXPORT int hipGraphCreate(void** graph, unsigned) {
  *graph = kGraph;
  return 0;
}
NULL_RUNTIME_EXPORT int hipGraphAddMemsetNode(void** node, void*, void* const*, std::size_t, const MemsetParams*) {
  *node = &g_object[3];
  return 0;
}
NULL_RUNTIME_EXPORT int hipGraphInstantiate(void** exec, void*, void**, char*, std::size_t) {
  *exec = &g_object[4];
  return 0;
}
NULL_RUNTIME_EXPORT int hipGraphLaunch(void*, void*) { return 0; }
NULL_RUNTIME_EXPORT int hipGraphExecDestroy(void*) { return 0; }
NULL_RUNTIME_EXPORT int hipGraphDestroy(void*) { return 0; }
