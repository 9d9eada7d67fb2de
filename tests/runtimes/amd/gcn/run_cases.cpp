// run_cases.cpp: runs instructions on given registers and memory, for operations_test.py.
//
// run_cases list: every row of the tables, a line each: name, format, opcode, traits, type of the result and the
// sources, whether clamping saturates.
// run_cases run TARGET: cases from standard input, what became of each to standard output, both as struct Case.
// run_cases time TARGET: how many instructions a second a thread runs of each case's code, which is to go round for
// ever.
// With HSACPU_CHECKED set, the cases run in checked mode (../checked.h).
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string_view>

#include "../checked.h"
#include "../kernels.h"
#include "../settings.h"
#include "code.h"
#include "wave.h"

using namespace hsa_cpu;
using namespace hsa_cpu::gcn;

namespace {

constexpr u32 kCodeWords = 64, kVectorsShown = 16, kAccumulatorsShown = 32;

struct Case {
  u32 code[kCodeWords];
  u32 s[kScalars];
  u32 scc, mode, state, reserved;
  u32 v[kVectorsShown][kLanes];
  u32 a[kAccumulatorsShown][kLanes];
  char memory[2048];
  char lds[1024];
  char scratch[kLanes][32];
};

constexpr std::uint32_t kDeviceNode = 1;

// Where the memory of cases is: addresses in registers are made for it.
char* const kMemory = reinterpret_cast<char*>(0x200000000000);

void set_up(const Case& what, const Image& image, Workgroup& group, Wave& wave, char* scratch) {
  group.lds.assign(what.lds, what.lds + sizeof what.lds);
  std::memcpy(kMemory, what.memory, sizeof what.memory);
  std::memcpy(wave.s, what.s, sizeof what.s);
  std::memset(wave.v, 0, sizeof wave.v);
  std::memcpy(wave.v, what.v, sizeof what.v);
  std::memcpy(wave.v[kAccumulators], what.a, sizeof what.a);
  wave.active_of = 0;
  std::memset(wave.active, 0, sizeof wave.active);
  wave.group = &group;
  wave.scratch = scratch;
  wave.scratch_bytes = sizeof what.scratch[0];
  wave.set_mode(what.mode);
  wave.scc = what.scc != 0;
  wave.state = State::Running;
  wave.kernel = "(a case)";
  static Guard guard("(a case)", image.base, kDeviceNode);
  wave.guard = checked() ? &guard : nullptr;
  wave.image = &image;
  jump(wave, image.base);
}

void run(Case& what, bool gfx90a, Wave& wave) {
  const Image image(reinterpret_cast<u64>(what.code), sizeof what.code, gfx90a, gfx90a);
  Workgroup group;
  set_up(what, image, group, wave, what.scratch[0]);
  run_turn(wave, 1000);
  what.state = static_cast<u32>(wave.state);
  what.scc = wave.scc ? 1 : 0;
  what.mode = wave.mode;
  std::memcpy(what.s, wave.s, sizeof what.s);
  std::memcpy(what.v, wave.v, sizeof what.v);
  std::memcpy(what.a, wave.v[kAccumulators], sizeof what.a);
  std::memcpy(what.memory, kMemory, sizeof what.memory);
  std::memcpy(what.lds, group.lds.data(), sizeof what.lds);
}

void time_it(Case& what, bool gfx90a, Wave& wave) {
  constexpr i32 kInstructions = 20'000'000, kTurn = 4096;
  const Image image(reinterpret_cast<u64>(what.code), sizeof what.code, gfx90a, gfx90a);
  Workgroup group;
  set_up(what, image, group, wave, what.scratch[0]);
  run_turn(wave, kTurn);
  timespec start{}, end{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
  for (i32 done = 0; done < kInstructions; done += kTurn) run_turn(wave, kTurn);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  const double seconds =
      static_cast<double>(end.tv_sec - start.tv_sec) + static_cast<double>(end.tv_nsec - start.tv_nsec) * 1e-9;
  std::printf("%.1f\n", kInstructions / seconds / 1e6);
}

void list() {
  for (const Operations all :
       {scalar_operations(), vector_operations(), compare_operations(), matrix_operations(), memory_operations()})
    for (const Operation* row = all.begin; row != all.end; ++row)
      std::printf("%s %d %d %d %d %d %d %d %d\n", row->name, static_cast<int>(row->format), row->opcode, row->traits,
                  static_cast<int>(row->result), static_cast<int>(row->sources[0]), static_cast<int>(row->sources[1]),
                  static_cast<int>(row->sources[2]), row->saturated != nullptr ? 1 : 0);
}

}  // namespace

// What the interpreter takes from the rest of the runtime.
namespace hsa_cpu {
const Settings& settings() {
  static const Settings* const read = [] {
    auto* const made = new Settings{};
    made->checked = std::getenv("HSACPU_CHECKED") != nullptr ? 1 : 0;
    return made;
  }();
  return *read;
}
void complain(const char* format, ...) { std::fprintf(stderr, "%s\n", format); }
void journal(const char*, ...) {}
}  // namespace hsa_cpu

int main(int count, char** arguments) {
  if (count == 2 && std::string_view(arguments[1]) == "list") {
    list();
    return 0;
  }
  if (count != 3) return 2;
  if (mmap(kMemory, sizeof Case::memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
           0) != kMemory)
    return 1;
  ledger_add(kMemory, sizeof Case::memory, MemoryIs::Allocation, 0, agent_bit(kDeviceNode), agent_bit(kDeviceNode));
  const bool gfx90a = std::string_view(arguments[2]) == "gfx90a";
  const auto wave = std::make_unique<Wave>();
  const auto what = std::make_unique<Case>();
  const bool timed = std::string_view(arguments[1]) == "time";
  while (std::fread(what.get(), sizeof *what, 1, stdin) == 1) {
    if (timed) {
      time_it(*what, gfx90a, *wave);
      continue;
    }
    run(*what, gfx90a, *wave);
    if (std::fwrite(what.get(), sizeof *what, 1, stdout) != 1) return 1;
  }
  return 0;
}
