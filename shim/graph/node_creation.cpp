#include "shim/graph/node_creation.h"

#include "shim/lock_rank.h"
#include "shim/memory/quirks.h"

namespace graphpool {
namespace {

/// The first version that is known to give every node an id of its own.
constexpr int kIdsOfTheirOwn = 71400000;

constinit RankedMutex<LockRank::kNodes> g_making;

}  // namespace

NodeCreation::NodeCreation(bool needed) noexcept : locked_(needed && runtime_version() < kIdsOfTheirOwn) {
  if (locked_) g_making.lock();
}

NodeCreation::~NodeCreation() {
  if (locked_) g_making.unlock();
}

}  // namespace graphpool
