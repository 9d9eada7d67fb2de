#include "shim/capture/open_captures.h"

#include "shim/entry.h"
#include "shim/memory/stream_work.h"

namespace graphpool {

constinit std::atomic<int> g_open_captures{0};
constinit std::atomic<std::uint64_t> g_capture_doubts{0};
constinit std::atomic<std::uint64_t> g_device_changes{0};

void capture_opened() noexcept {
  g_open_captures.fetch_add(1, std::memory_order_acq_rel);
  set_attention(true);
  // No event of ours gets into the capture that begins now.
  stream_work().capture_begins();
}

void capture_closed() noexcept {
  if (g_open_captures.fetch_sub(1, std::memory_order_acq_rel) == 1) set_attention(false);
}

}  // namespace graphpool
