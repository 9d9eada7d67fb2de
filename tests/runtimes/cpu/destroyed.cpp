// destroyed.cpp: which functions of AMD's runtime look handles up before they use them (read in clr's
// hip_graph.cpp, 5.6 to 6.3). A destroyed one is refused there: hipErrorInvalidValue, by hipGraphDestroy
// hipErrorIllegalState. The others work on freed memory, so nothing can be said of what they answer.
#include <algorithm>
#include <string_view>

#include "api.h"
#include "cpuhip_statistics.h"

namespace cpuhip {
namespace {

/// Few functions look graphs and execs up, few do not look nodes up.
constexpr std::string_view kLookGraphsUp[] = {"hipGraphAddDependencies",
                                              "hipGraphAddKernelNode",
                                              "hipGraphAddMemcpyNodeFromSymbol",
                                              "hipGraphAddMemcpyNodeToSymbol",
                                              "hipGraphClone",
                                              "hipGraphDestroy",
                                              "hipGraphExecChildGraphNodeSetParams"};
constexpr std::string_view kLookExecsUp[] = {"hipGraphExecExternalSemaphoresSignalNodeSetParams",
                                             "hipGraphExecExternalSemaphoresWaitNodeSetParams",
                                             "hipGraphLaunch",
                                             "hipGraphLaunch_spt",
                                             "hipGraphNodeGetEnabled",
                                             "hipGraphNodeSetEnabled",
                                             "hipGraphUpload"};
constexpr std::string_view kDoNotLookNodesUp[] = {
    "hipGraphExecEventRecordNodeSetEvent", "hipGraphExecEventWaitNodeSetEvent", "hipGraphKernelNodeCopyAttributes",
    "hipGraphKernelNodeGetAttribute",      "hipGraphKernelNodeSetAttribute",    "hipGraphNodeFindInClone",
    "hipGraphRemoveDependencies"};

template <typename List>
bool has(const List& list, std::string_view function) {
  return std::find(std::begin(list), std::end(list), function) != std::end(list);
}

bool looks_up(std::string_view function, std::string_view noun) {
  if (noun == "graph") return has(kLookGraphsUp, function);
  if (noun == "executable graph") return has(kLookExecsUp, function);
  return noun == "graph node" && !has(kDoNotLookNodesUp, function);
}

}  // namespace

bool refuses_destroyed(const char* noun) {
  const Gone gone = config().gone;
  return gone == Gone::Refused || (gone == Gone::LookedUp && looks_up(current_call(), noun));
}

}  // namespace cpuhip

extern "C" __attribute__((visibility("default"))) int cpuhip_looks_up(const char* function, const char* noun) {
  return cpuhip::looks_up(function, noun) ? 1 : 0;
}
