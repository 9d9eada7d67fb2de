#include "shim/graph/node_creation.h"

#include "shim/lock_rank.h"

namespace graphpool {
namespace {

constinit RankedMutex<LockRank::kNodes> g_making;

}  // namespace

void NodeCreation::lock() noexcept { g_making.lock(); }
void NodeCreation::unlock() noexcept { g_making.unlock(); }

}  // namespace graphpool
