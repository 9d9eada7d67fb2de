// A few calls of each kind; also linked against .so.6 and .so.7.
#include "host.h"

int main() {
  int version = 0;
  say("version", hipRuntimeGetVersion(&version));
  say("is", version);
  use_device("main");
  hipStream_t stream = nullptr;
  say("stream", hipStreamCreate(&stream));
  say("query", hipStreamQuery(stream));
  say("synchronise", hipStreamSynchronize(stream));
  say("destroy", hipStreamDestroy(stream));
  say("free of nothing", hipFree(nullptr));
  int here = 0;
  say("free of a local", hipFree(&here));
  say("last error", hipGetLastError());
  say("last error again", hipGetLastError());
  return 7;
}
