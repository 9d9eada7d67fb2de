#include "shim/settings.h"

#include <atomic>

namespace graphpool {
namespace {
constinit std::atomic<std::uint64_t> g_epoch{1};
}

std::uint64_t settings_epoch(int) noexcept { return g_epoch.load(std::memory_order_acquire); }
void settings_changed() noexcept { g_epoch.fetch_add(1, std::memory_order_acq_rel); }

}  // namespace graphpool
