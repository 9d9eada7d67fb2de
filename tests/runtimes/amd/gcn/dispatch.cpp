// dispatch.cpp: a dispatch as workgroups and waves that take turns on the queue's thread.
//
// Some workgroups are resident at a time; each of their waves runs for a turn, then the next. A wave that sleeps gives
// up its turn, one at a barrier waits for the workgroup's others. Where none of the resident workgroups ends for long,
// they may wait for one that has not begun: as many again become resident, up to what a device holds. Other queues and
// processes run on threads of their own.
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "../agents.h"
#include "../checked.h"
#include "../kernels.h"
#include "../settings.h"
#include "code.h"
#include "wave.h"

namespace hsa_cpu {
namespace gcn {
namespace {

constexpr i32 kTurn = 4096;  // instructions
constexpr u32 kResidentWaves = 32;
constexpr u32 kMostResidentWaves = 2400;  // as on 60 compute units
constexpr u32 kRoundsUntilMore = 16;      // without a workgroup's end; twice as many the next time
constexpr u32 kRoundsUntilYield = 4;
constexpr u32 kDynamicStackBytes = 16384;  // a lane, where the compiler does not know how much a kernel calls
constexpr u32 kGroupGranule = 512;

/// The head of a code object's kernel, NAME.kd (LLVM, "User Guide for AMDGPU Backend", Kernel Descriptor).
struct Descriptor {
  u32 group_bytes, private_bytes, kernarg_bytes, reserved0;
  i64 entry;
  u32 reserved1[5];
  u32 resources3, resources1, resources2;
  u16 properties, preload;
  u32 reserved2;
};
static_assert(sizeof(Descriptor) == 64);

enum Property : u32 {
  kPrivateBuffer = 1 << 0,
  kDispatchPointer = 1 << 1,
  kQueuePointer = 1 << 2,
  kKernargPointer = 1 << 3,
  kDispatchId = 1 << 4,
  kFlatScratchInit = 1 << 5,
  kPrivateSize = 1 << 6,
  kDynamicStack = 1 << 11,
};

/// Waves are large: a thread keeps those it has used.
class WavePool {
 public:
  std::unique_ptr<Wave> take() {
    if (spare_.empty()) return std::unique_ptr<Wave>(new Wave);
    std::unique_ptr<Wave> wave = std::move(spare_.back());
    spare_.pop_back();
    return wave;
  }
  void give(std::unique_ptr<Wave> wave) {
    if (spare_.size() < kResidentWaves * 2) spare_.push_back(std::move(wave));
  }

 private:
  std::vector<std::unique_ptr<Wave>> spare_;
};

struct Sizes {
  u32 x, y, z;
};

struct Resident {
  Workgroup group;
  std::vector<std::unique_ptr<Wave>> waves;
};

class Dispatch {
 public:
  Dispatch(const hsa_kernel_dispatch_packet_t& packet, const Kernel& kernel, const amd_queue_t* queue,
           const std::atomic<bool>& stop)
      : packet_(packet), kernel_(kernel), queue_(queue), stop_(stop) {
    std::memcpy(&descriptor_, reinterpret_cast<const void*>(packet.kernel_object), sizeof descriptor_);
    entry_ = packet.kernel_object + static_cast<u64>(descriptor_.entry);
    const auto at_least_one = [](u32 value) { return std::max(value, 1u); };
    size_ = {at_least_one(packet.workgroup_size_x), at_least_one(packet.workgroup_size_y),
             at_least_one(packet.workgroup_size_z)};
    grid_ = {at_least_one(packet.grid_size_x), at_least_one(packet.grid_size_y), at_least_one(packet.grid_size_z)};
    const auto count = [](u32 items, u32 each) { return (items - 1) / each + 1; };
    groups_ = {count(grid_.x, size_.x), count(grid_.y, size_.y), count(grid_.z, size_.z)};
    total_ = u64{groups_.x} * groups_.y * groups_.z;
    threads_ = size_.x * size_.y * size_.z;
    waves_ = count(threads_, kLanes);
    private_bytes_ = std::max(packet.private_segment_size, descriptor_.private_bytes);
    if ((descriptor_.properties & kDynamicStack) != 0) private_bytes_ += kDynamicStackBytes;
    private_bytes_ = (private_bytes_ + 15) & ~15u;
    group_bytes_ = std::max(packet.group_segment_size, descriptor_.group_bytes);
    group_bytes_ = (group_bytes_ + kGroupGranule - 1) / kGroupGranule * kGroupGranule;
    if (!checked()) return;
    guard_.emplace(kernel.name.c_str(), entry_, kernel.agent->node);
    guard_->add_own(&packet, sizeof packet);
  }

  hsa_status_t run() {
    const u64 at_once = std::min<u64>(total_, std::max(1u, kResidentWaves / waves_));
    while (residents_.size() < at_once) begin_another();
    u32 until_more = kRoundsUntilMore;
    for (u32 rounds = 1; live_ != 0 && !trapped_ && !stop_.load(std::memory_order_relaxed); ++rounds) {
      const u64 ended_before = ended_;
      for (const auto& resident : residents_) take_turns(*resident);
      if (ended_ != ended_before) {
        rounds = 0;
        until_more = kRoundsUntilMore;
        continue;
      }
      release_grid_barrier();
      if (rounds == until_more) {
        until_more *= 2;
        double_residents();
      }
      if (rounds % kRoundsUntilYield == 0) sched_yield();
    }
    for (const auto& resident : residents_)
      for (auto& wave : resident->waves) pool().give(std::move(wave));
    return trapped_ ? HSA_STATUS_ERROR_EXCEPTION : HSA_STATUS_SUCCESS;
  }

 private:
  static WavePool& pool() {
    static thread_local WavePool waves;
    return waves;
  }

  void begin_another() {
    residents_.push_back(std::make_unique<Resident>());
    begin(*residents_.back());
    ++live_;
  }

  void double_residents() {
    const u64 wanted = std::min<u64>(residents_.size() * 2, kMostResidentWaves / waves_);
    while (residents_.size() < wanted && next_ < total_) begin_another();
  }

  void begin(Resident& resident) {
    const u64 number = next_++;
    const Sizes id = {static_cast<u32>(number % groups_.x), static_cast<u32>(number / groups_.x % groups_.y),
                      static_cast<u32>(number / groups_.x / groups_.y)};
    resident.group.lds.assign(group_bytes_, 0);
    resident.group.scratch.assign(u64{private_bytes_} * kLanes * waves_, 0);
    resident.group.alive = waves_;
    resident.group.at_barrier = 0;
    while (resident.waves.size() < waves_) resident.waves.push_back(pool().take());
    for (u32 index = 0; index < waves_; ++index) begin(resident, *resident.waves[index], index, id, number);
  }

  void begin(Resident& resident, Wave& wave, u32 index, const Sizes& id, u64 number) {
    std::memset(wave.s, 0, sizeof wave.s);
    wave.active_of = 0;
    std::memset(wave.active, 0, sizeof wave.active);
    wave.group = &resident.group;
    wave.scratch = resident.group.scratch.data() + u64{index} * kLanes * private_bytes_;
    wave.scratch_bytes = private_bytes_;
    wave.set_mode(descriptor_.resources1 >> 12 & 0xff);
    wave.scc = false;
    wave.state = State::Running;
    wave.kernel = kernel_.name.c_str();
    wave.guard = guard_ ? &*guard_ : nullptr;
    wave.image = nullptr;
    jump(wave, entry_);
    set_scalars(wave, id, number);
    set_vectors(wave, index, id);
    if (wave.exec() == 0) {
      wave.state = State::Done;
      --resident.group.alive;
    }
  }

  /// Scalar registers as the descriptor asks for them, in the order the hardware fills them.
  void set_scalars(Wave& wave, const Sizes& id, u64 number) {
    u32 at = 0;
    const auto put = [&](u64 value) {
      wave.set_pair(at, value);
      at += 2;
    };
    const auto asked = [&](Property property) { return (descriptor_.properties & property) != 0; };
    const auto scratch = reinterpret_cast<u64>(wave.scratch);
    if (asked(kPrivateBuffer)) {
      put(scratch & 0xffffffffffff);
      put(u64{1} << 55 | 0xffffffff);  // all of memory; adds the lane's number
    }
    if (asked(kDispatchPointer)) put(reinterpret_cast<u64>(&packet_));
    if (asked(kQueuePointer)) put(reinterpret_cast<u64>(queue_));
    if (asked(kKernargPointer)) put(reinterpret_cast<u64>(packet_.kernarg_address));
    if (asked(kDispatchId)) put(number);
    if (asked(kFlatScratchInit)) put(scratch);
    if (asked(kPrivateSize)) wave.s[at++] = private_bytes_;
    at = descriptor_.resources2 >> 1 & 31;  // after those of the user
    const u32 ids[] = {id.x, id.y, id.z, 0};
    for (u32 index = 0; index < 4; ++index)
      if ((descriptor_.resources2 >> (7 + index) & 1) != 0) wave.s[at++] = ids[index];
    if ((descriptor_.resources2 & 1) != 0) wave.s[at] = 0;  // the wave's part of private memory begins at its base
  }

  /// Each lane's place in the workgroup, and which lanes there are.
  void set_vectors(Wave& wave, u32 index, const Sizes& id) {
    u64 exec = 0;
    for (u32 lane = 0; lane < kLanes; ++lane) {
      const u32 thread = index * kLanes + lane;
      const u32 x = thread % size_.x, y = thread / size_.x % size_.y, z = thread / size_.x / size_.y;
      const bool inside = thread < threads_ && u64{id.x} * size_.x + x < grid_.x && u64{id.y} * size_.y + y < grid_.y &&
                          u64{id.z} * size_.z + z < grid_.z;
      if (inside) exec |= u64{1} << lane;
      wave.v[0][lane] = wave.image->gfx90a ? x | y << 10 | z << 20 : x;
      wave.v[1][lane] = y;
      wave.v[2][lane] = z;
    }
    wave.set_pair(kExec, exec);
  }

  void take_turns(Resident& resident) {
    Workgroup& group = resident.group;
    if (group.alive == 0) return;
    for (const auto& wave : resident.waves) {
      if (wave->state != State::Running) continue;
      run_turn(*wave, kTurn);
      if (wave->state == State::Done) --group.alive;
      if (wave->state == State::AtBarrier) ++group.at_barrier;
      if (wave->state == State::Trapped) trapped_ = true;
      if (group.at_barrier != 0 && group.at_barrier == group.alive) {
        for (const auto& other : resident.waves)
          if (other->state == State::AtBarrier) other->state = State::Running;
        group.at_barrier = 0;
      }
    }
    if (group.alive == 0) end(resident);
  }

  void end(Resident& resident) {
    ++ended_;
    if (next_ < total_)
      begin(resident);
    else
      --live_;
    if (resident.group.alive == 0 && next_ < total_) return end(resident);
  }

  /// One wave of each workgroup comes to the grid's barrier; the others wait for it at the workgroup's.
  void release_grid_barrier() {
    bool waiting = false;
    for (const auto& resident : residents_) {
      for (const auto& wave : resident->waves) {
        if (wave->state == State::Running) return;
        waiting = waiting || wave->state == State::AtGridBarrier;
      }
    }
    if (!waiting) return;
    if (next_ < total_) return begin_another();
    for (const auto& resident : residents_)
      for (const auto& wave : resident->waves)
        if (wave->state == State::AtGridBarrier) wave->state = State::Running;
  }

  const hsa_kernel_dispatch_packet_t& packet_;
  const Kernel& kernel_;
  const amd_queue_t* queue_;
  const std::atomic<bool>& stop_;
  Descriptor descriptor_{};
  u64 entry_ = 0, total_ = 0, next_ = 0, live_ = 0, ended_ = 0;
  Sizes size_{}, grid_{}, groups_{};
  u32 threads_ = 0, waves_ = 0, private_bytes_ = 0, group_bytes_ = 0;
  bool trapped_ = false;
  std::optional<Guard> guard_;
  std::vector<std::unique_ptr<Resident>> residents_;
};

}  // namespace
}  // namespace gcn

hsa_status_t run_dispatch(const hsa_kernel_dispatch_packet_t& packet, const Kernel& kernel, const amd_queue_t* queue,
                          const std::atomic<bool>& stop) {
  if (!settings().run_kernels) return HSA_STATUS_SUCCESS;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    complain("kernel %s is not run: the processor has no AVX2", kernel.name.c_str());
    return HSA_STATUS_ERROR;
  }
  return gcn::Dispatch(packet, kernel, queue, stop).run();
}

}  // namespace hsa_cpu
