#include "shim/graph/epochs.h"

#include "shim/capture/operand.h"
#include "shim/graph/graphs.h"
#include "shim/memory/pool.h"
#include "shim/memory/timeline.h"
#include "shim/settings.h"

namespace graphpool {
namespace {

void make_all_real(const char* why) {
  materialise_open_captures(why);
  graphs().known().end_builds(why);
}

}  // namespace

hipError_t change_settings(Forward forward) {
  make_all_real("settings were changed");
  const hipError_t result = forward();
  if (result == hipSuccess) settings_changed();
  if (captures_open()) note_capture_doubt();
  return result;
}

hipError_t change_setting(EntryId function, const void* object, std::uint64_t attribute, std::uint64_t value,
                          Forward forward) {
  SettingCall call(function, object, attribute, value);
  if (call.differs()) make_all_real("a setting was changed");
  const hipError_t result = forward();
  if (result == hipSuccess) call.set();
  if (captures_open()) note_capture_doubt();
  return result;
}

hipError_t change_kind(const void* address, std::size_t bytes, Forward forward) {
  const bool judged = recordings_judged(address, bytes);
  if (judged) make_all_real("memory of the capture becomes another kind");
  const hipError_t result = forward();
  if (judged && result == hipSuccess) next_settings_epoch();
  if (captures_open()) note_capture_doubt();
  return result;
}

void drop_device(int device) {
  materialise_open_captures("a device was reset");
  graphs().memory_leaves(nullptr, 0, "a device was reset");
  graphs().device_reset(device);  // before the pool: they give their slots back
  timelines_device_reset(device);
  pool().device_reset(device);
  settings_changed();
}

}  // namespace graphpool
