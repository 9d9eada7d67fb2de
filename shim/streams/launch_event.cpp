#include "shim/streams/launch_event.h"

#include <new>

#include "shim/hip/next.h"
#include "shim/hip/null_stream.h"
#include "shim/hip/private_objects.h"
#include "shim/hip/restore.h"

namespace graphpool {

std::shared_ptr<LaunchEvent> LaunchEvent::record(hipStream_t stream) {
  auto made = std::make_shared<LaunchEvent>();
  if (make_private(&made->event_) != hipSuccess ||
      next().hipEventRecord(made->event_, recorded_on(stream)) != hipSuccess)
    return nullptr;
  return made;
}

bool LaunchEvent::record_again(hipStream_t stream) {
  return !off_stream() && own_ == nullptr && next().hipEventRecord(event_, recorded_on(stream)) == hipSuccess;
}

LaunchEvent::~LaunchEvent() {
  if (event_ != nullptr) static_cast<void>(PrivateCalls::worked([&] { return destroy_private(event_); }));
}

hipEvent_t LaunchEvent::get() const noexcept {
  switch (place_.load(std::memory_order_acquire)) {
    case Place::kStream:
      return event_;
    case Place::kOwnStream:
      return own_->get();
    case Place::kPassed:
    case Place::kLost:
      return nullptr;
  }
  return nullptr;
}

bool LaunchEvent::passed() const noexcept {
  const Place place = place_.load(std::memory_order_acquire);
  return place == Place::kPassed || (place == Place::kOwnStream && own_->complete());
}

void LaunchEvent::leave_for_good(int device, bool may_ask) noexcept {
  try {
    if (may_ask) leave_stream(device);
  } catch (const std::bad_alloc&) {
  }
  Place place = Place::kStream;
  place_.compare_exchange_strong(place, Place::kLost, std::memory_order_acq_rel);
}

void LaunchEvent::leave_stream(int device) {
  if (off_stream()) return;
  const PrivateCalls private_calls;
  if (next().hipEventQuery(event_) == hipSuccess) {
    place_.store(Place::kPassed, std::memory_order_release);
    return;
  }
  own_ = PassedEvent::make(event_, device);
  if (own_ != nullptr) place_.store(Place::kOwnStream, std::memory_order_release);
}

}  // namespace graphpool
