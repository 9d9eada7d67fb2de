#include "shim/capture/open_captures.h"

namespace graphpool {

constinit std::atomic<int> g_open_captures{0};

void capture_opened() noexcept {
  g_open_captures.fetch_add(1, std::memory_order_acq_rel);
  __atomic_store_n(&gp_stream_attention, 1, __ATOMIC_RELEASE);
}

void capture_closed() noexcept {
  if (g_open_captures.fetch_sub(1, std::memory_order_acq_rel) == 1)
    __atomic_store_n(&gp_stream_attention, 0, __ATOMIC_RELEASE);
}

void note_unknown_operation(EntryId) noexcept {}

}  // namespace graphpool
