#include "shim/graphs/exec_limit.h"

#include <new>
#include <utility>
#include <vector>

#include "shim/hip/restore.h"

namespace graphpool {

void ExecLimit::prepare(ProgramExec& exec) const {
  if (on()) exec.limited = std::make_shared<ExecUses::Entry>(exec, exec.device);
}

void ExecLimit::note_served(ProgramExec& exec) noexcept {
  if (exec.limited == nullptr) return;
  HeldRecording recording;
  {
    const LockGuard guard(exec.lock);
    if (exec.variant == nullptr) return;
    if (exec.recording != nullptr) recording = hold(*exec.recording);
  }
  if (recording) static_cast<void>((*recording).communicates());  // which is asked under no lock
  const LockGuard guard(lock_);
  uses_.enlist(*exec.limited);
}

void ExecLimit::note_made_again() noexcept {
  const LockGuard guard(lock_);
  ++counts_.made_again;
}

/// The exec's variant becomes free. It was last used when the program last used the exec.
void ExecLimit::remove(ProgramExec& exec) noexcept {
  if (exec.limited == nullptr) return;
  const LockGuard guard(lock_);
  uses_.leave(*exec.limited);
  const LockGuard exec_guard(exec.lock);
  const LockGuard recordings(g_recordings_lock);
  if (exec.variant != nullptr) store_.note_used(*exec.variant, exec.limited->last_used);
}

bool ExecLimit::has_room(int device, std::size_t bytes) const noexcept {
  const LockGuard guard(g_recordings_lock);
  return store_.limits.held(device).bytes + bytes <= settings_.exec_memory;
}

ExecRoom::Left ExecLimit::make_room(int device, std::size_t bytes) noexcept {
  if (!on()) return Left::kNothing;
  RetiredVariants retired;  // destroyed when the lock is not held any more
  const LockGuard guard(lock_);
  try {
    while (!has_room(device, bytes)) {
      const Found found = give_back_oldest(device, &retired);
      if (found != Found::kGone) return found == Found::kNone ? Left::kNothing : Left::kRunning;
    }
  } catch (const std::bad_alloc&) {
    // What is left goes when there is host memory for it.
  }
  return Left::kNothing;
}

ExecRoom::Left ExecLimit::trim() noexcept {
  if (!on()) return Left::kNothing;
  std::vector<int> devices;
  try {
    const LockGuard guard(g_recordings_lock);
    devices = store_.limits.devices();
  } catch (const std::bad_alloc&) {
    return Left::kNothing;
  }
  Left left = Left::kNothing;
  for (const int device : devices)
    if (make_room(device, 0) == Left::kRunning) left = Left::kRunning;
  return left;
}

bool ExecLimit::reclaim(int device) noexcept {
  if (!on()) return false;
  RetiredVariants retired;
  const LockGuard guard(lock_);
  try {
    while (give_back_oldest(device, &retired) == Found::kGone) {
    }
  } catch (const std::bad_alloc&) {
    // Some have gone.
  }
  return !retired.empty();
}

/// Whether the runtime's exec is exactly what the recording and the binding say, and nothing else needs it.
bool ExecLimit::can_be_made_again(const ProgramExec& exec) const {
  if (exec.state() != ExecState::kServed || exec.variant == nullptr || exec.own != nullptr || exec.objects != nullptr)
    return false;
  const Recording& recording = *exec.recording;
  if (!recording.rebuildable.load(std::memory_order_acquire) || recording.communicates()) return false;
  const LockGuard guard(g_recordings_lock);
  const Variant& variant = *exec.variant;
  return !recording.outdated && variant.ring == nullptr && variant.graph != nullptr &&
         variant.health() == Health::kGood && !outlived_memory(recording, variant);
}

/// If the exec runs, lets a later look know without a wait that its launches have ended.
ExecUses::Verdict ExecLimit::judge(ProgramExec& exec) {
  const LockGuard guard(exec.lock);
  if (!can_be_made_again(exec)) return ExecUses::Verdict::kStays;
  if (exec.variant->idle()) return ExecUses::Verdict::kGoes;
  static_cast<void>(exec.variant->launches.seal());
  return ExecUses::Verdict::kRuns;
}

/// Gives back what was used least recently: an exec that nobody holds, or one of the program's.
ExecLimit::Found ExecLimit::give_back_oldest(int device, RetiredVariants* retired) {
  const PrivateCalls private_calls;
  retired->reserve(retired->size() + 3);
  const ExecUses::Oldest oldest = uses_.oldest(device, [this](ProgramExec& exec) {
    assume_held(lock_);
    return judge(exec);
  });
  {
    const LockGuard guard(g_recordings_lock);
    auto free = store_.take_oldest_free(device, oldest.entry == nullptr ? ~std::uint64_t{0} : oldest.entry->last_used);
    if (free != nullptr) {
      retired->push_back(std::move(free));
      return Found::kGone;
    }
  }
  if (oldest.entry != nullptr && give_back(*oldest.entry, retired)) return Found::kGone;
  return oldest.some_run ? Found::kOnlyRunning : Found::kNone;
}

/// Gives back an exec of the program's, which is watched before it goes. Returns false if what it names is going just
/// now. Pre-conditions: nobody uses it; `retired` has room for three more.
bool ExecLimit::give_back(ExecUses::Entry& entry, RetiredVariants* retired) {
  ProgramExec& exec = *entry.exec;
  Recording& recording = *exec.recording_in_call();
  std::shared_ptr<UnstagedExec> watched;
  unstaged_.bound(&watched, recording, exec.device, exec.binding_in_call());
  bool stays;
  {
    const LockGuard guard(exec.lock);
    const LockGuard recordings(g_recordings_lock);
    stays = recording.outdated || outlived_memory(recording, *exec.variant);
    if (!stays) {
      retired->push_back(store_.remove(recording, exec.variant));
      exec.variant = nullptr;
      // The program may have set nodes since it was made: then it is not what is made again.
      if (exec.real_path != nullptr) retired->push_back(std::move(exec.real_path));
      std::swap(exec.unstaged, watched);
      if (exec.sets != nullptr) exec.sets->all_given();  // what is made again has the whole binding
    }
  }
  if (auto unneeded = unstaged_.take(&watched)) retired->push_back(std::move(unneeded));
  if (stays) return false;
  uses_.leave(entry);
  ++counts_.given_back;
  return true;
}

bool ExecLimit::was_given_back(ProgramExec& exec) const noexcept {
  if (!on()) return false;
  const LockGuard guard(exec.lock);
  return exec.given_back();
}

/// Takes what was made before memory went, or makes the exec anew. Natively nothing is made here that could fail: what
/// failed once is tried once more, and memory may have gone meanwhile.
hipError_t ExecLimit::make(Recording& recording, const Binding& binding, int device,
                           const std::shared_ptr<UnstagedExec>& watched, std::unique_ptr<Variant>* made) {
  hipError_t result = hipSuccess;
  for (int attempt = 0; attempt < 2; ++attempt) {
    *made = UnstagedExecs::take_made(watched);
    if (*made != nullptr) return hipSuccess;
    result = builder_.build(recording, binding, device, made);
    if (result == hipSuccess) return result;
  }
  return result;
}

hipError_t ExecLimit::make_again(ProgramExec& exec) {
  if (exec.limited == nullptr) return hipSuccess;
  std::shared_ptr<UnstagedExec> watched;
  HeldRecording held;
  Binding binding;
  {
    const LockGuard guard(exec.lock);
    if (!exec.given_back()) return hipSuccess;
    watched = exec.unstaged;
    held = hold(*exec.recording);
    binding = exec.binding;
  }
  Recording& recording = *held;
  Variant* variant = nullptr;
  {
    const LockGuard guard(g_recordings_lock);
    variant = store_.take_free(recording, binding, exec.device, exec);
  }
  const Way way = variant != nullptr ? Way::kSame : Way::kNewExec;
  if (variant == nullptr) {
    std::unique_ptr<Variant> made;
    if (const hipError_t result = make(recording, binding, exec.device, watched, &made); result != hipSuccess)
      return result;
    variant = store_.adopt(recording, std::move(made), &exec);
  }
  watched = put_in_place(exec, *variant, way);
  const std::unique_ptr<Variant> unneeded = unstaged_.take(&watched);
  return hipSuccess;
}

/// Puts the variant into the exec. Returns what has watched the exec. Null: another launch was first, and the variant
/// is free.
std::shared_ptr<UnstagedExec> ExecLimit::put_in_place(ProgramExec& exec, Variant& variant, Way way) {
  const LockGuard guard(lock_);
  const LockGuard exec_guard(exec.lock);
  const LockGuard recordings(g_recordings_lock);
  if (exec.variant != nullptr) {
    store_.give(variant, nullptr);
    return nullptr;
  }
  exec.variant = &variant;
  exec.way = way;
  uses_.enlist(*exec.limited);
  ++counts_.made_again;
  return std::move(exec.unstaged);
}

ExecLimit::Counts ExecLimit::counts() const noexcept {
  const LockGuard guard(lock_);
  return counts_;
}

ExecUse::ExecUse(ExecLimit& limit, const ProgramExec* exec) noexcept : limit_(limit) {
  if (exec == nullptr || exec->limited == nullptr) [[likely]]
    return;
  entry_ = exec->limited;
  begin();
}

ExecUse::~ExecUse() {
  if (entry_ != nullptr) end();
}

void ExecUse::begin() noexcept {
  const LockGuard guard(limit_.lock_);
  const LockGuard recordings(g_recordings_lock);
  limit_.uses_.begin(*entry_, limit_.store_.tick());
}

void ExecUse::end() noexcept {
  const LockGuard guard(limit_.lock_);
  ExecUses::end(*entry_);
}

}  // namespace graphpool
