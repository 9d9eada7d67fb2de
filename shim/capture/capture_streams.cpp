#include "shim/capture/capture_streams.h"

#include <algorithm>

#include "shim/hip/next.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"

namespace graphpool {

void merge_tail(OperationTail& tail, const OperationTail& more) {
  for (const std::uint32_t index : more)
    if (std::find(tail.begin(), tail.end(), index) == tail.end()) tail.push_back(index);
}

bool CapturedStream::takes_part() const noexcept {
  if (left) return false;
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  return PrivateCalls::answered([&] { return next().hipStreamIsCapturing(handle, &status); }) &&
         status == hipStreamCaptureStatusActive;
}

CapturedStream& CaptureStreams::add(CapturedStream stream) {
  for (std::size_t i = 1; i < streams_.size(); ++i)
    if (streams_[i].destroyed && streams_[i].device == stream.device) return streams_.put(i, std::move(stream));
  return streams_.add(std::move(stream));
}

void CaptureStreams::forget(StreamKey key) noexcept {
  for (CapturedEvent& event : events_)
    if (event.stream == key) events_.forget(event);
  if (CapturedStream* const stream = find(key)) {
    stream->left = true;
    streams_.forget(*stream);
  }
}

bool CaptureStreams::joined_others(StreamKey key) noexcept {
  return std::any_of(streams_.begin(), streams_.end(),
                     [key](const CapturedStream& stream) { return stream.joined_from == key && !stream.left; });
}

std::uint64_t CaptureStreams::record(hipEvent_t event, const CapturedStream& stream, bool in_shell) {
  CapturedEvent* known = find_event(event);
  if (known == nullptr) {
    noted_.add(event);
    known = &events_.add({event, stream.key, {}, false});
  }
  known->stream = stream.key;
  if (stream.tail.empty() && !known->tail.empty() && has_defect(Defect::kEventsKeepNodes)) return number(*known);
  known->tail = stream.tail;
  known->recorded_in_shell = in_shell;
  return number(*known);
}

bool CaptureStreams::noted_elsewhere(hipEvent_t event) const noexcept {
  return std::find(elsewhere_.begin(), elsewhere_.end(), event) != elsewhere_.end();
}

void CaptureStreams::event_recorded_elsewhere(hipEvent_t event) {
  CapturedEvent* const known = find_event(event);
  if (known == nullptr) return;
  if (!noted_elsewhere(event)) elsewhere_.push_back(event);
  events_.forget(*known);
}

// In a shell, too, the runtime needs nothing of the event any more.
void CaptureStreams::event_destroyed(hipEvent_t event) noexcept {
  if (CapturedEvent* const known = find_event(event)) events_.forget(*known);
  std::erase(elsewhere_, event);
}

void CaptureStreams::forget_tails() noexcept {
  for (CapturedStream& stream : streams_) stream.tail.clear();
  for (CapturedEvent& event : events_) event.tail.clear();
}

void CaptureStreams::clear() noexcept {
  streams_.clear();
  events_.clear();
  elsewhere_.clear();
  noted_.clear();
}

}  // namespace graphpool
