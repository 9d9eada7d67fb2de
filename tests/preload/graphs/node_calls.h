// node_calls.h: graphs built node by node, as programs do it.
#pragma once

#include <initializer_list>
#include <vector>

#include "captures.h"

namespace captures {

/// The arguments of one kernel node; they live as long as the object.
class MixParams {
 public:
  MixParams(int* p, int a, int n = kCount) : p_(p), n_(n), a_(a) {
    params_.func = reinterpret_cast<void*>(kernels().mix_function());
    params_.gridDim = dim3(static_cast<unsigned>(n + 63) / 64);
    params_.blockDim = dim3(64);
    params_.kernelParams = args_;
  }
  MixParams(const MixParams&) = delete;
  MixParams& operator=(const MixParams&) = delete;
  hipKernelNodeParams* operator&() { return &params_; }  // NOLINT: stands for the parameters
  hipKernelNodeParams& get() { return params_; }

 private:
  int* p_;
  int n_, a_;
  void* args_[3] = {&p_, &n_, &a_};
  hipKernelNodeParams params_{};
};

inline hipMemsetParams fill_params(void* dst, unsigned value, std::size_t count) {
  hipMemsetParams params{};
  params.dst = dst;
  params.elementSize = 4;
  params.value = value;
  params.width = count;
  params.height = 1;
  params.pitch = count * 4;
  return params;
}

inline hipMemcpy3DParms copy_params(void* dst, const void* src, std::size_t bytes) {
  hipMemcpy3DParms params{};
  params.srcPtr = {const_cast<void*>(src), bytes, bytes, 1};
  params.dstPtr = {dst, bytes, bytes, 1};
  params.extent = {bytes, 1, 1};
  params.kind = hipMemcpyDeviceToDevice;
  return params;
}

/// A graph the program builds, and destroys with the object.
class NodeGraph {
 public:
  NodeGraph() { EXPECT_EQ(hipSuccess, hipGraphCreate(&graph_, 0)); }
  ~NodeGraph() { EXPECT_EQ(hipSuccess, hipGraphDestroy(graph_)); }
  NodeGraph(const NodeGraph&) = delete;
  NodeGraph& operator=(const NodeGraph&) = delete;
  operator hipGraph_t() const { return graph_; }  // NOLINT: stands for the handle

  using After = std::vector<hipGraphNode_t>;

  hipGraphNode_t mix(const After& after, int* p, int a) {
    MixParams params(p, a);
    hipGraphNode_t node = nullptr;
    EXPECT_EQ(hipSuccess, hipGraphAddKernelNode(&node, graph_, after.data(), after.size(), &params));
    return node;
  }
  hipGraphNode_t join(const After& after, int* p, const int* q) {
    int n = kCount;
    void* args[] = {&p, &q, &n};
    hipKernelNodeParams params{};
    params.func = reinterpret_cast<void*>(kernels().join_function());
    params.gridDim = dim3((kCount + 63) / 64);
    params.blockDim = dim3(64);
    params.kernelParams = args;
    hipGraphNode_t node = nullptr;
    EXPECT_EQ(hipSuccess, hipGraphAddKernelNode(&node, graph_, after.data(), after.size(), &params));
    return node;
  }
  hipGraphNode_t spin(const After& after, int* flag) {
    void* args[] = {&flag};
    hipKernelNodeParams params{};
    params.func = reinterpret_cast<void*>(kernels().spin_function());
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = args;
    hipGraphNode_t node = nullptr;
    EXPECT_EQ(hipSuccess, hipGraphAddKernelNode(&node, graph_, after.data(), after.size(), &params));
    return node;
  }
  hipGraphNode_t fill(const After& after, void* dst, unsigned value, std::size_t count = kCount) {
    const hipMemsetParams params = fill_params(dst, value, count);
    hipGraphNode_t node = nullptr;
    EXPECT_EQ(hipSuccess, hipGraphAddMemsetNode(&node, graph_, after.data(), after.size(), &params));
    return node;
  }
  hipGraphNode_t copy(const After& after, void* dst, const void* src, std::size_t bytes = kCount * 4,
                      hipMemcpyKind kind = hipMemcpyDeviceToDevice) {
    hipGraphNode_t node = nullptr;
    EXPECT_EQ(hipSuccess, hipGraphAddMemcpyNode1D(&node, graph_, after.data(), after.size(), dst, src, bytes, kind));
    return node;
  }
  hipGraphNode_t copy_3d(const After& after, void* dst, const void* src, std::size_t bytes = kCount * 4) {
    const hipMemcpy3DParms params = copy_params(dst, src, bytes);
    hipGraphNode_t node = nullptr;
    EXPECT_EQ(hipSuccess, hipGraphAddMemcpyNode(&node, graph_, after.data(), after.size(), &params));
    return node;
  }
  hipGraphNode_t empty(const After& after) {
    hipGraphNode_t node = nullptr;
    EXPECT_EQ(hipSuccess, hipGraphAddEmptyNode(&node, graph_, after.data(), after.size()));
    return node;
  }
  hipGraphNode_t host(const After& after, hipHostFn_t function, void* user) {
    const hipHostNodeParams params{function, user};
    hipGraphNode_t node = nullptr;
    EXPECT_EQ(hipSuccess, hipGraphAddHostNode(&node, graph_, after.data(), after.size(), &params));
    return node;
  }

  hipGraphNode_t child(const After& after, hipGraph_t graph) {
    hipGraphNode_t node = nullptr;
    EXPECT_EQ(hipSuccess, hipGraphAddChildGraphNode(&node, graph_, after.data(), after.size(), graph));
    return node;
  }

  hipGraphExec_t instantiate() const {
    hipGraphExec_t exec = nullptr;
    EXPECT_EQ(hipSuccess, hipGraphInstantiate(&exec, graph_, nullptr, nullptr, 0));
    return exec;
  }
  /// Instantiates, launches, waits, destroys the exec.
  void run(hipStream_t stream) const {
    const hipGraphExec_t exec = instantiate();
    EXPECT_EQ(hipSuccess, hipGraphLaunch(exec, stream));
    EXPECT_EQ(hipSuccess, hipStreamSynchronize(stream));
    EXPECT_EQ(hipSuccess, hipGraphExecDestroy(exec));
  }
  std::size_t count() const {
    std::size_t nodes = 0;
    EXPECT_EQ(hipSuccess, hipGraphGetNodes(graph_, nullptr, &nodes));
    return nodes;
  }

 private:
  hipGraph_t graph_ = nullptr;
};

inline Since node_calls() {
  return Since({"hipGraphCreate",
                "hipGraphDestroy",
                "hipGraphAddKernelNode",
                "hipGraphAddMemcpyNode",
                "hipGraphAddMemcpyNode1D",
                "hipGraphAddMemsetNode",
                "hipGraphAddHostNode",
                "hipGraphAddEmptyNode",
                "hipGraphAddChildGraphNode",
                "hipGraphInstantiate",
                "hipGraphLaunch",
                "hipGraphExecDestroy",
                "hipGraphGetNodes",
                "hipGraphExecKernelNodeSetParams",
                "hipGraphExecMemcpyNodeSetParams",
                "hipGraphExecMemcpyNodeSetParams1D",
                "hipGraphExecMemsetNodeSetParams",
                "hipGraphExecHostNodeSetParams",
                "hipGraphExecChildGraphNodeSetParams",
                "hipGraphKernelNodeSetParams",
                "hipGraphMemcpyNodeSetParams1D",
                "hipGraphMemsetNodeSetParams"});
}

}  // namespace captures
