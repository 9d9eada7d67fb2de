// real_table.h: finds tracked graphs and nodes by the runtime's own handles. It changes under g_recordings_lock, which
// clang checks. Threads: find() from any thread, without a lock.
#pragma once

#include "shim/base/pointer_table.h"
#include "shim/recording/recordings_lock.h"

namespace graphpool {

class RealTable {
 public:
  /// Returns false when the key is not there.
  bool find(const void* key, PointerTable::Value* value) const noexcept { return table_.find(key, value); }
  /// Adds or replaces. Returns false when memory ran out; then nothing changed.
  bool put(const void* key, const PointerTable::Value& value) noexcept REQUIRES(g_recordings_lock) {
    return table_.put(key, value);
  }
  void erase(const void* key) noexcept REQUIRES(g_recordings_lock) { table_.erase(key); }

 private:
  PointerTable table_;
};

}  // namespace graphpool
