// kernel.cpp: packing arguments and running a kernel's blocks.
//
// The object's own code takes the threads of a block one after another (kernel_prelude.inc). It runs on a stack of its
// own, a fiber; a thread that meets __syncthreads leaves the fiber parked, and another fiber goes on with the remaining
// threads. So a kernel without barriers is a plain loop, and one with barriers has as many fibers as threads wait.
// Between the two switches no code of the runtime runs on a fiber: sanitizers see one call that returns.
//
// Stacks belong to the thread that runs kernels and are kept for its life.
#include "kernel.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "api.h"
#include "graph.h"

namespace cpuhip {

/// The contract with kernel_prelude.inc; the first three members are known to the assembly below.
struct KernelBlock {
  void* scheduler_stack;
  void* fiber_stack;
  unsigned long finished;
  void (*barrier)(KernelBlock*);
  const std::byte* args;
  void* dynamic_shared;
  unsigned grid[3], block[3], index[3], next[3];
};
static_assert(offsetof(KernelBlock, scheduler_stack) == 0 && offsetof(KernelBlock, fiber_stack) == 8 &&
              offsetof(KernelBlock, finished) == 16);

extern "C" {
void cpuhip_fiber_resume(KernelBlock* block);  ///< scheduler -> fiber; returns when the fiber parks or has finished
void cpuhip_fiber_park(KernelBlock* block);    ///< fiber -> scheduler
void cpuhip_fiber_begin();                     ///< where a new fiber starts: rbx = block, r12 = the object's entry
}

asm(R"(
.text
.macro cpuhip_switch from, to
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, \from(%rdi)
  movq \to(%rdi), %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.endm
.hidden cpuhip_fiber_resume
.globl cpuhip_fiber_resume
.type cpuhip_fiber_resume, @function
cpuhip_fiber_resume:
  cpuhip_switch 0, 8
.size cpuhip_fiber_resume, .-cpuhip_fiber_resume
.hidden cpuhip_fiber_park
.globl cpuhip_fiber_park
.type cpuhip_fiber_park, @function
cpuhip_fiber_park:
  cpuhip_switch 8, 0
.size cpuhip_fiber_park, .-cpuhip_fiber_park
.hidden cpuhip_fiber_begin
.globl cpuhip_fiber_begin
.type cpuhip_fiber_begin, @function
cpuhip_fiber_begin:
  .cfi_startproc
  .cfi_undefined rip
  movq %rbx, %rdi
  callq *%r12
  movq $1, 16(%rbx)
  movq %rbx, %rdi
  callq cpuhip_fiber_park
  ud2
  .cfi_endproc
.size cpuhip_fiber_begin, .-cpuhip_fiber_begin
)");

namespace {

using KernelEntry = void (*)(KernelBlock*);

constexpr std::size_t kStackBytes = std::size_t{256} << 10;
constexpr std::size_t kGuardBytes = 4096;

/// The fiber stacks of one thread, each above a page that faults.
class Stacks {
 public:
  Stacks() = default;
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks() {
    for (std::byte* base : bases_) ::munmap(base, kStackBytes);
  }

  /// Fiber number `index`, ready to begin; returns its stack pointer.
  void* prepare(std::size_t index, KernelBlock* block, KernelEntry entry) {
    if (index == bases_.size()) {
      void* base = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
      if (base == MAP_FAILED || ::mprotect(base, kGuardBytes, PROT_NONE) != 0)
        fatal("no memory for the stacks of a block's threads (%zu there)", bases_.size());
      bases_.push_back(static_cast<std::byte*>(base));
    }
    // What cpuhip_switch pops, r15 first, and the address it returns to: there the stack is a multiple of 16.
    const std::uintptr_t frame[7] = {0,
                                     0,
                                     0,
                                     reinterpret_cast<std::uintptr_t>(entry),
                                     reinterpret_cast<std::uintptr_t>(block),
                                     0,
                                     reinterpret_cast<std::uintptr_t>(&cpuhip_fiber_begin)};
    std::byte* top = bases_[index] + kStackBytes - 64 - sizeof frame;
    std::memcpy(top, frame, sizeof frame);
    return top;
  }

 private:
  std::vector<std::byte*> bases_;
};

/// The threads of one block.
void run_block(KernelBlock& block, KernelEntry entry, Stacks& stacks, std::vector<void*>& parked) {
  parked.clear();
  block.next[0] = block.next[1] = block.next[2] = 0;
  while (block.next[2] < block.block[2]) {
    block.finished = 0;
    block.fiber_stack = stacks.prepare(parked.size(), &block, entry);
    cpuhip_fiber_resume(&block);
    if (block.finished == 0) parked.push_back(block.fiber_stack);
  }
  while (!parked.empty()) {  // one barrier a round, threads in order
    std::size_t waiting = 0;
    for (void* stack : parked) {
      block.finished = 0;
      block.fiber_stack = stack;
      cpuhip_fiber_resume(&block);
      if (block.finished == 0) parked[waiting++] = block.fiber_stack;
    }
    parked.resize(waiting);
  }
}

}  // namespace

hipError_t check_launch(const Kernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes) {
  constexpr std::uint64_t kMaxGlobal = UINT32_MAX;
  constexpr std::uint64_t kMaxThreads = 1024;
  constexpr std::size_t kMaxSharedBytes = std::size_t{64} << 10;
  for (const auto& [blocks, threads] : {std::pair{grid.x, block.x}, {grid.y, block.y}, {grid.z, block.z}})
    if (std::uint64_t{blocks} * threads > kMaxGlobal) return hipErrorInvalidConfiguration;
  for (const unsigned size : {grid.x, grid.y, grid.z, block.x, block.y, block.z})
    if (size == 0) return hipErrorInvalidValue;
  if (shared_bytes > kMaxSharedBytes) return hipErrorInvalidValue;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads > kMaxThreads) return hipErrorInvalidValue;
  if (threads > kernel.max_threads) return hipErrorLaunchFailure;
  return hipSuccess;
}

bool within_shared_limit(const Kernel& kernel, std::size_t shared_bytes) {
  if (!quirks().shared_limits || kernel.shared_limit == nullptr) return true;
  const int limit = *kernel.shared_limit;
  return limit < 0 || shared_bytes <= static_cast<std::size_t>(limit);
}

hipError_t pack_arguments(const Kernel& kernel, void** params, void** extra, std::vector<std::byte>* args) {
  if (params != nullptr && extra != nullptr) return hipErrorInvalidValue;
  if (params == nullptr && extra == nullptr && !kernel.arguments.empty()) return hipErrorInvalidValue;
  args->assign(kernel.args_bytes, std::byte{0});
  if (params != nullptr) {
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
      if (params[i] == nullptr) return hipErrorInvalidValue;
      std::memcpy(args->data() + kernel.arguments[i].offset, params[i], kernel.arguments[i].bytes);
    }
  } else if (extra != nullptr) {
    if (extra[0] != HIP_LAUNCH_PARAM_BUFFER_POINTER || extra[2] != HIP_LAUNCH_PARAM_BUFFER_SIZE ||
        extra[4] != HIP_LAUNCH_PARAM_END || extra[1] == nullptr || extra[3] == nullptr)
      return hipErrorInvalidValue;
    const std::size_t given = *static_cast<const std::size_t*>(extra[3]);
    if (given != 0 && !args->empty()) std::memcpy(args->data(), extra[1], std::min(given, args->size()));
  }
  return hipSuccess;
}

void run_kernel(const KernelWork& work) {
  thread_local Stacks stacks;
  thread_local std::vector<void*> parked;
  // As aligned as any argument may be: vector types have up to 32 bytes.
  constexpr std::size_t kAlign = 64;
  std::vector<std::byte> args(work.args.size() + kAlign);
  auto* aligned =
      reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(args.data()) + kAlign - 1) / kAlign * kAlign);
  if (!work.args.empty()) std::memcpy(aligned, work.args.data(), work.args.size());
  std::vector<std::byte> shared(std::size_t{work.shared_bytes} + kAlign);

  KernelBlock block{};
  block.barrier = &cpuhip_fiber_park;
  block.args = aligned;
  block.dynamic_shared =
      reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(shared.data()) + kAlign - 1) / kAlign * kAlign);
  block.grid[0] = work.grid.x, block.grid[1] = work.grid.y, block.grid[2] = work.grid.z;
  block.block[0] = work.block.x, block.block[1] = work.block.y, block.block[2] = work.block.z;
  const auto entry = reinterpret_cast<KernelEntry>(work.kernel->entry);
  for (block.index[2] = 0; block.index[2] < work.grid.z; ++block.index[2])
    for (block.index[1] = 0; block.index[1] < work.grid.y; ++block.index[1])
      for (block.index[0] = 0; block.index[0] < work.grid.x; ++block.index[0]) run_block(block, entry, stacks, parked);
}

}  // namespace cpuhip
