// callsite_plugin.cpp: an object to load and unload, and to be called through. Built twice: with all symbols, and
// stripped of those it does not export.
extern "C" {

__attribute__((visibility("default"), noinline)) int plugin_calls(int (*callback)(void*), void* data) {
  return callback(data) + 1;  // not a tail call: this frame stays on the stack
}

/// Not exported.
__attribute__((visibility("hidden"), noinline, used)) int plugin_hidden(int value) { return value + 2; }

__attribute__((visibility("default"))) void* plugin_address_of_hidden() {
  return reinterpret_cast<void*>(&plugin_hidden);
}
}
