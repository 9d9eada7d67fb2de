// An error of HIP that is pending while hipRTC compiles.
#include <hip/hiprtc.h>

#include "host.h"

int main() {
  int unknown = 0;
  hiprtcProgram program = nullptr;
  say("free", hipFree(&unknown));
  say("create",
      hiprtcCreateProgram(&program, "extern \"C\" __global__ void k(int* a) { *a = 1; }", "k", 0, nullptr, nullptr));
  say("pending", hipPeekAtLastError());
  say("compile", hiprtcCompileProgram(program, 0, nullptr));
  say("pending", hipPeekAtLastError());
  say("destroy", hiprtcDestroyProgram(&program));
  say("pending", hipGetLastError());
}
