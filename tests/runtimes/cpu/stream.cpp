// stream.cpp: streams and their workers, and the entries about streams.
// A worker is started by its first work and never joined: at exit of the process it is simply left where it is.
// Invariants: a task waits only for tasks enqueued before it (of any stream), so workers cannot wait for each other in
// a circle, also where streams share them; only what waits for something outside of the queues (a kernel that spins, a
// value awaited) can hold up others, as on a GPU. What a task holds is released before it is seen complete.
#include "stream.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <span>
#include <thread>
#include <utility>

#include "api.h"
#include "capture.h"
#include "device.h"
#include "handles.h"
#include "memory.h"

namespace cpuhip {
namespace {

HandleTable<Stream>& table() {
  static auto& instance = *new HandleTable<Stream>;
  return instance;
}

std::atomic<std::uint64_t> g_generation{0};

/// A started thread inherits the signal mask: the program's signals are for the program's threads.
void start_detached(std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(std::move(body)).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// The calling thread's streams; ended with the thread, without waiting for their work.
struct ThreadStreams {
  struct Entry {
    Stream* stream = nullptr;
    std::uint64_t generation = 0;  ///< the place may serve another stream after a device reset
    bool live() const { return stream != nullptr && table().state(stream) == HandleState::Live && same(); }
    bool same() const { return stream->generation() == generation; }
  };
  Entry entries[kMaxDevices];

  ~ThreadStreams() {
    if (forked()) return;  // a lock may be held for ever by a thread that is not there
    for (const Entry& entry : entries) {
      if (!entry.live()) continue;
      capture_stream_destroyed(*entry.stream);
      if (!table().kill(entry.stream)) continue;
      entry.stream->gone = true;
      close_stream(*entry.stream);
    }
  }
};
thread_local ThreadStreams t_streams;
/// CPUHIP_SERIALISE: what the call in progress has enqueued last.
thread_local Token t_enqueued;
std::atomic<std::size_t> g_waiting_calls{0};

}  // namespace

std::int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void Completion::finish(hipError_t result) {
  if (done()) return;
  result_ = result;
  finished_ns_ = now_ns();
  // notify_all() looks whether somebody waits: not before the state is seen by who is about to.
  state_.store(1, std::memory_order_seq_cst);
  state_.notify_all();
}

hipError_t Completion::wait() {
  state_.wait(0, std::memory_order_acquire);
  return result_;
}

hipError_t Completion::wait_in_call() {
  if (!done()) {
    ++g_waiting_calls;
    (void)wait();
    --g_waiting_calls;
  }
  return result_;
}

std::size_t waiting_calls() { return g_waiting_calls; }

Stream::Stream(Device& device, unsigned flags, int priority, bool is_null)
    : device_(device),
      flags_(flags),
      priority_(priority),
      is_null_(is_null),
      generation_(++g_generation),
      own_worker_(config().queues == 0),
      worker_(own_worker_ ? std::make_shared<Worker>(device) : device.queue_for(priority)) {}

hipStream_t Stream::handle() const { return reinterpret_cast<hipStream_t>(const_cast<Stream*>(this)); }

/// What work enqueued now has to wait for beside the stream's own work: the rules of the legacy null stream.
void Stream::collect(std::vector<Token>& after) const {
  if (is_null_) {
    for (const Stream* other : device_.streams) {
      if (other->blocking() && other->last_ && !other->last_->done()) after.push_back(other->last_);
    }
  } else if (blocking()) {
    const Token& last = device_.null_stream().last_;
    if (last && !last->done()) after.push_back(last);
  }
}

void Worker::push(std::shared_ptr<Task> task) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(task));
  if (!started_) {
    started_ = true;
    start_detached([self = shared_from_this()] { self->run(); });
  }
  changed_.notify_one();
}

void Worker::close(std::function<void()> last) {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_one();
    if (started_) {
      last_ = std::move(last);
      return;
    }
  }
  last();
}

void Worker::run() {
  for (;;) {
    std::shared_ptr<Task> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !queue_.empty() || closing_; });
      if (queue_.empty()) break;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    for (const Token& token : task->after) {
      if (token->done()) continue;
      held_up_.store(true, std::memory_order_release);
      (void)token->wait();
      held_up_.store(false, std::memory_order_release);
    }
    hipError_t result = hipSuccess;
    jitter();
    if (const auto* work = std::get_if<std::function<hipError_t()>>(&task->work)) {
      result = (*work)();
    } else if (const auto* operation = std::get_if<Operation>(&task->work)) {
      result = device_.sticky.load(std::memory_order_acquire);  // a device in error runs nothing more
      if (result == hipSuccess) result = execute(*operation, device_);
    }
    device_.note(result);
    task->work = std::monostate{};
    task->after.clear();
    jitter();
    task->finish(result);
  }
  last_();
}

void Stream::push_locked(const std::shared_ptr<Task>& task) {
  last_ = task;
  worker_->push(task);
}

Token Stream::push(std::shared_ptr<Task> task) {
  device_.null_stream();  // made before its lock is taken
  const std::lock_guard lock(device_.order_mutex);
  collect(task->after);
  push_locked(task);
  if (config().serialise) t_enqueued = task;
  return task;
}

void finish_serialised() {
  if (const Token token = std::exchange(t_enqueued, nullptr)) (void)token->wait_in_call();
}

Token Stream::enqueue(std::function<hipError_t()> work, std::vector<Token> also_after) {
  auto task = std::make_shared<Task>();
  if (work) task->work = std::move(work);
  task->after = std::move(also_after);
  return push(std::move(task));
}

Token Stream::enqueue(Operation operation) {
  auto task = std::make_shared<Task>();
  task->work = std::move(operation);
  return push(std::move(task));
}

Token Stream::marker() {
  device_.null_stream();
  const std::lock_guard lock(device_.order_mutex);
  std::vector<Token> after;
  collect(after);
  if (last_ && !last_->done()) after.push_back(last_);
  if (after.empty()) {
    auto now = std::make_shared<Completion>();
    now->finish(hipSuccess);
    return now;
  }
  if (after.size() == 1) {
    last_ = after.front();  // later work of other streams waits for the null stream's markers too
    return last_;
  }
  auto task = std::make_shared<Task>();
  task->after = std::move(after);
  push_locked(task);
  return task;
}

bool Stream::idle() {
  device_.null_stream();
  const std::lock_guard lock(device_.order_mutex);
  std::vector<Token> after;
  collect(after);
  return after.empty() && (!last_ || last_->done());
}

void Stream::retire() {
  --worker_->streams;
  {
    const std::lock_guard lock(device_.order_mutex);
    std::erase(device_.streams, this);
    last_ = nullptr;
  }
  table().give_back(this);
}

void close_stream(Stream& stream) {
  const std::shared_ptr<Worker> worker = stream.worker_;  // the stream may be gone before close() returns
  if (stream.own_worker_) {
    worker->close([&stream] { stream.retire(); });
    return;
  }
  // Behind what the stream has in the queue it shares.
  auto task = std::make_shared<Task>();
  task->work = [&stream] {
    stream.retire();
    return hipSuccess;
  };
  worker->push(std::move(task));
}

void end_stream(Stream& stream) {
  const std::shared_ptr<Worker> worker = stream.own_worker_ ? stream.worker_ : nullptr;
  stream.retire();
  if (worker) worker->close([] {});
}

std::shared_ptr<Worker> Device::queue_for(int priority) {
  const std::lock_guard lock(queue_mutex_);
  auto& queues = queues_[priority];
  if (queues.size() < static_cast<std::size_t>(config().queues)) queues.push_back(std::make_shared<Worker>(*this));
  const auto& fewest = *std::min_element(queues.begin(), queues.end(),
                                         [](const auto& a, const auto& b) { return a->streams < b->streams; });
  ++fewest->streams;
  return fewest;
}

Stream& Device::null_stream() {
  Stream* stream = null_stream_.load(std::memory_order_acquire);
  if (stream != nullptr) return *stream;
  const std::lock_guard lock(order_mutex);
  if (null_stream_.load() == nullptr) null_stream_.store(table().create(*this, 0u, 0, true), std::memory_order_release);
  return *null_stream_.load();
}

namespace {

Stream* create_stream(Device& device, unsigned flags, int priority) {
  Stream* stream = table().create(device, flags, std::clamp(priority, -1, 1), false);
  const std::lock_guard lock(device.order_mutex);
  device.streams.push_back(stream);
  return stream;
}

}  // namespace

Stream& per_thread_stream() {
  Device& device = current_device();
  ThreadStreams::Entry& entry = t_streams.entries[device.ordinal()];
  if (!entry.live()) {
    entry.stream = create_stream(device, 0, 0);
    entry.generation = entry.stream->generation();
  }
  return *entry.stream;
}

Stream& make_private_stream(Device& device) { return *create_stream(device, hipStreamNonBlocking, 0); }

void end_private_stream(Stream& stream) {
  if (table().kill(&stream)) close_stream(stream);
}

hipError_t resolve(hipStream_t handle, bool per_thread, Stream** stream) {
  constexpr std::uintptr_t kLegacy = 1, kPerThread = 2;
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number == kPerThread || (number == 0 && per_thread)) {
    *stream = &per_thread_stream();
    return hipSuccess;
  }
  if (number == 0 || number == kLegacy) {
    *stream = &current_device().null_stream();
    return hipSuccess;
  }
  switch (table().state(handle)) {
    case HandleState::Unknown:
      return hipErrorContextIsDestroyed;
    case HandleState::Dead:
      if (config().gone == Gone::LookedUp) return hipErrorContextIsDestroyed;
      fatal("stream %p (generation %llu) was destroyed", static_cast<void*>(handle),
            static_cast<unsigned long long>(generation_of(handle)));
    case HandleState::Live:
      break;
  }
  *stream = reinterpret_cast<Stream*>(handle);
  return hipSuccess;
}

std::size_t live_streams() { return table().live(); }

std::uint64_t generation_of(hipStream_t handle) {
  if (handle == nullptr || table().state(handle) == HandleState::Unknown) return 0;
  return reinterpret_cast<Stream*>(handle)->generation();
}

hipError_t submit(Stream& stream, Operation operation, Token* token) {
  const hipError_t valid = validate(operation, stream.device());
  if (valid != hipSuccess) return valid;
  if (stream.capture.load(std::memory_order_acquire) != nullptr) return capture_operation(stream, std::move(operation));
  Token pushed = stream.enqueue(std::move(operation));
  if (token != nullptr) *token = std::move(pushed);
  return hipSuccess;
}

hipError_t synchronize(Device& device) {
  std::vector<Token> pending;
  {
    Stream& null_stream = device.null_stream();
    const std::lock_guard lock(device.order_mutex);
    if (null_stream.last_) pending.push_back(null_stream.last_);
    for (const Stream* stream : device.streams) {
      if (stream->last_) pending.push_back(stream->last_);
    }
  }
  for (const Token& token : pending) (void)token->wait_in_call();
  return device.sticky.load();
}

void close_streams(Device& device) {
  std::vector<Stream*> streams;
  {
    const std::lock_guard lock(device.order_mutex);
    streams = device.streams;
  }
  for (Stream* stream : streams) {
    capture_stream_destroyed(*stream);
    if (!table().kill(stream)) continue;
    stream->gone = true;
    close_stream(*stream);
  }
}

namespace {

hipError_t create(hipStream_t* handle, unsigned flags, int priority) {
  if (handle == nullptr || (flags & ~unsigned{hipStreamNonBlocking}) != 0) return hipErrorInvalidValue;
  *handle = create_stream(current_device(), flags, priority)->handle();
  return hipSuccess;
}

/// Calls body(stream) for a valid handle.
template <typename Body>
hipError_t with_stream(const char* name, hipStream_t handle, bool per_thread, Body&& body) {
  return api(name, [&](Call& call) {
    Stream* stream = nullptr;
    const hipError_t result = resolve(call, handle, per_thread, &stream);
    return result == hipSuccess ? body(*stream) : result;
  });
}

hipError_t destroy(Stream& stream) {
  if (stream.capture.load() != nullptr) capture_stream_destroyed(stream);
  if (!table().kill(&stream)) return hipErrorContextIsDestroyed;
  stream.gone = true;
  (void)stream.marker()->wait_in_call();  // HIP finishes a stream before it destroys it
  end_stream(stream);
  return hipSuccess;
}

hipError_t query(Stream& stream) {
  const hipError_t result = check_capture_stream_query(stream);
  if (result != hipSuccess) return result;
  return stream.idle() ? stream.device().sticky.load() : hipErrorNotReady;
}

hipError_t synchronize_stream(Stream& stream) {
  const hipError_t result = check_capture_stream_query(stream);
  if (result != hipSuccess) return result;
  (void)stream.marker()->wait_in_call();
  return stream.device().sticky.load();
}

hipError_t wait_event(Stream& stream, hipEvent_t handle, unsigned flags) {
  if (flags != 0) return hipErrorInvalidValue;
  ihipEvent_t* event = nullptr;
  if (const hipError_t result = resolve(handle, &event); result != hipSuccess) return result;
  look_at_stream_of(*event);
  bool captured = false;
  const hipError_t result = capture_wait_event(stream, *event, &captured);
  if (result != hipSuccess || captured) return result;
  Token token;
  {
    const std::lock_guard lock(event->mutex);
    token = event->recorded;
  }
  if (token && !token->done()) stream.enqueue({}, {token});
  return hipSuccess;
}

/// hipLaunchAttributeID, and hipStreamAttrValue as far as it is known here.
constexpr int kAccessPolicyWindow = 1, kSynchronizationPolicy = 3;
union AttributeValue {
  hipAccessPolicyWindow window;
  int synchronization;
};

hipError_t set_attribute(Stream& stream, int attribute, const AttributeValue* value) {
  if (value == nullptr) return hipErrorInvalidValue;
  const std::lock_guard lock(stream.device().order_mutex);
  if (attribute == kAccessPolicyWindow && value->window.hitRatio >= 0 && value->window.hitRatio <= 1) {
    stream.attributes.window = value->window;
  } else if (attribute == kSynchronizationPolicy && value->synchronization > 0 && value->synchronization <= 4) {
    stream.attributes.synchronization = value->synchronization;
  } else {
    return hipErrorInvalidValue;
  }
  return hipSuccess;
}

hipError_t get_attribute(Stream& stream, int attribute, AttributeValue* value) {
  if (value == nullptr || (attribute != kAccessPolicyWindow && attribute != kSynchronizationPolicy))
    return hipErrorInvalidValue;
  const std::lock_guard lock(stream.device().order_mutex);
  if (attribute == kAccessPolicyWindow) {
    value->window = stream.attributes.window;
  } else {
    value->synchronization = stream.attributes.synchronization;
  }
  return hipSuccess;
}

hipError_t copy_attributes(Stream& to, Stream& from) {
  Stream::Attributes attributes;
  {
    const std::lock_guard lock(from.device().order_mutex);
    attributes = from.attributes;
  }
  const std::lock_guard lock(to.device().order_mutex);
  to.attributes = attributes;
  return hipSuccess;
}

template <typename Value>
hipError_t out(Value* place, Value value) {
  if (place == nullptr) return hipErrorInvalidValue;
  *place = value;
  return hipSuccess;
}

/// Values are read and written by streams only in memory the runtime knows.
bool known_value(const void* address, std::size_t bytes) {
  AllocationInfo info;
  return address != nullptr && reinterpret_cast<std::uintptr_t>(address) % bytes == 0 &&
         find_allocation(address, &info);
}

/// HIP 6.3 does not capture these: they run at once, even on a capturing stream (capture_operation()).
hipError_t write_value(Stream& stream, void* address, std::uint64_t value, unsigned bytes) {
  if (!known_value(address, bytes)) return hipErrorInvalidValue;
  return submit(stream, WriteValueWork{address, value, bytes});
}

hipError_t wait_value(Stream& stream, void* address, std::uint64_t value, std::uint64_t mask, unsigned flags,
                      unsigned bytes) {
  if (!known_value(address, bytes) || flags > hipStreamWaitValueNor) return hipErrorInvalidValue;
  return submit(stream, WaitValueWork{address, value, mask, flags, bytes});
}

/// hipStreamBatchMemOpParams.
struct MemoryOperation {
  int kind;
  void* address;
  std::uint64_t value;
  unsigned flags;
  void* alias;
  std::uint64_t reserved;
};

/// All of them, or none where one is refused.
hipError_t batch(Stream& stream, const MemoryOperation* operations, unsigned count, unsigned flags) {
  constexpr int kWait32 = 1, kWrite32 = 2, kWait64 = 4, kWrite64 = 5;
  constexpr unsigned kMost = 255;
  if (operations == nullptr || count == 0 || count > kMost || flags != 0) return hipErrorInvalidValue;
  const auto waits = [](const MemoryOperation& each) { return each.kind == kWait32 || each.kind == kWait64; };
  const auto bytes = [](const MemoryOperation& each) {
    return each.kind == kWait64 || each.kind == kWrite64 ? 8u : 4u;
  };
  for (const MemoryOperation& each : std::span(operations, count)) {
    if (!waits(each) && each.kind != kWrite32 && each.kind != kWrite64) return hipErrorInvalidValue;
    if (!known_value(each.address, bytes(each))) return hipErrorInvalidValue;
    if (waits(each) && each.flags > hipStreamWaitValueNor) return hipErrorInvalidValue;
  }
  for (const MemoryOperation& each : std::span(operations, count)) {
    const hipError_t result =
        waits(each) ? wait_value(stream, each.address, each.value, ~std::uint64_t{0}, each.flags, bytes(each))
                    : write_value(stream, each.address, each.value, bytes(each));
    if (result != hipSuccess) return result;
  }
  return hipSuccess;
}

hipError_t add_callback(Stream& stream, hipStream_t handle, hipStreamCallback_t callback, void* user, unsigned flags) {
  if (callback == nullptr || flags != 0) return hipErrorInvalidValue;
  Device& device = stream.device();
  stream.enqueue([=, &device] {
    callback(handle, device.sticky.load(), user);
    return hipSuccess;
  });
  return hipSuccess;
}

hipError_t launch_host(Stream& stream, hipHostFn_t function, void* user) {
  if (function == nullptr) return hipErrorInvalidValue;
  return submit(stream, HostWork{function, user});
}

}  // namespace
}  // namespace cpuhip

using namespace cpuhip;

CPUHIP_EXPORT int cpuhip_held_up(void* stream) {
  cpuhip::Stream* found = nullptr;
  return cpuhip::resolve(static_cast<hipStream_t>(stream), false, &found) == hipSuccess && found->held_up();
}

CPUHIP_EXPORT hipError_t hipStreamCreate(hipStream_t* stream) {
  return api("hipStreamCreate", [&](Call&) { return create(stream, hipStreamDefault, 0); });
}

CPUHIP_EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) {
  return api("hipStreamCreateWithFlags", [&](Call&) { return create(stream, flags, 0); });
}

CPUHIP_EXPORT hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int priority) {
  return api("hipStreamCreateWithPriority", [&](Call&) { return create(stream, flags, priority); });
}

CPUHIP_EXPORT hipError_t hipExtStreamCreateWithCUMask(hipStream_t* stream, std::uint32_t words,
                                                      const std::uint32_t* mask) {
  return api("hipExtStreamCreateWithCUMask", [&](Call&) {
    if (words == 0 || mask == nullptr) return hipErrorInvalidValue;
    return create(stream, hipStreamDefault, 0);
  });
}

CPUHIP_EXPORT hipError_t hipExtStreamGetCUMask(hipStream_t handle, std::uint32_t words, std::uint32_t* mask) {
  return with_stream("hipExtStreamGetCUMask", handle, false, [&](Stream&) {
    if (words == 0 || mask == nullptr) return hipErrorInvalidValue;
    std::fill_n(mask, words, ~std::uint32_t{0});
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipStreamDestroy(hipStream_t handle) {
  return api("hipStreamDestroy", [&](Call& call) {
    constexpr std::uintptr_t kLastSpecial = 2;  // null, legacy, per thread
    if (reinterpret_cast<std::uintptr_t>(handle) <= kLastSpecial) return hipErrorInvalidHandle;
    Stream* stream = nullptr;
    const hipError_t result = resolve(call, handle, false, &stream);
    return result == hipSuccess ? destroy(*stream) : result;
  });
}

#define CPUHIP_STREAM_ENTRY(name, per_thread, body) \
  CPUHIP_EXPORT hipError_t name(hipStream_t handle) { return with_stream(#name, handle, per_thread, body); }
CPUHIP_STREAM_ENTRY(hipStreamQuery, false, query)
CPUHIP_STREAM_ENTRY(hipStreamQuery_spt, true, query)
CPUHIP_STREAM_ENTRY(hipStreamSynchronize, false, synchronize_stream)
CPUHIP_STREAM_ENTRY(hipStreamSynchronize_spt, true, synchronize_stream)

CPUHIP_EXPORT hipError_t hipStreamWaitEvent(hipStream_t handle, hipEvent_t event, unsigned flags) {
  return with_stream("hipStreamWaitEvent", handle, false,
                     [&](Stream& stream) { return wait_event(stream, event, flags); });
}

CPUHIP_EXPORT hipError_t hipStreamWaitEvent_spt(hipStream_t handle, hipEvent_t event, unsigned flags) {
  return with_stream("hipStreamWaitEvent_spt", handle, true,
                     [&](Stream& stream) { return wait_event(stream, event, flags); });
}

CPUHIP_EXPORT hipError_t hipStreamGetFlags(hipStream_t handle, unsigned* flags) {
  // As AMD's: the null stream has none.
  if (handle == nullptr) return api("hipStreamGetFlags", [](Call&) { return hipErrorInvalidValue; });
  return with_stream("hipStreamGetFlags", handle, false, [&](Stream& stream) { return out(flags, stream.flags()); });
}

CPUHIP_EXPORT hipError_t hipStreamGetFlags_spt(hipStream_t handle, unsigned* flags) {
  return with_stream("hipStreamGetFlags_spt", handle, true, [&](Stream& stream) { return out(flags, stream.flags()); });
}

CPUHIP_EXPORT hipError_t hipStreamGetPriority(hipStream_t handle, int* priority) {
  return with_stream("hipStreamGetPriority", handle, false,
                     [&](Stream& stream) { return out(priority, stream.priority()); });
}

CPUHIP_EXPORT hipError_t hipStreamGetPriority_spt(hipStream_t handle, int* priority) {
  return with_stream("hipStreamGetPriority_spt", handle, true,
                     [&](Stream& stream) { return out(priority, stream.priority()); });
}

CPUHIP_EXPORT hipError_t hipStreamGetDevice(hipStream_t handle, hipDevice_t* device) {
  return with_stream("hipStreamGetDevice", handle, false,
                     [&](Stream& stream) { return out(device, stream.device().ordinal()); });
}

CPUHIP_EXPORT hipError_t hipStreamGetId(hipStream_t handle, unsigned long long* id) {
  return with_stream("hipStreamGetId", handle, false,
                     [&](Stream& stream) { return out(id, static_cast<unsigned long long>(stream.generation())); });
}

CPUHIP_EXPORT hipError_t hipStreamSetAttribute(hipStream_t handle, int attribute, const AttributeValue* value) {
  return with_stream("hipStreamSetAttribute", handle, false,
                     [&](Stream& stream) { return set_attribute(stream, attribute, value); });
}

CPUHIP_EXPORT hipError_t hipStreamGetAttribute(hipStream_t handle, int attribute, AttributeValue* value) {
  return with_stream("hipStreamGetAttribute", handle, false,
                     [&](Stream& stream) { return get_attribute(stream, attribute, value); });
}

CPUHIP_EXPORT hipError_t hipStreamCopyAttributes(hipStream_t to, hipStream_t from) {
  return with_stream("hipStreamCopyAttributes", to, false, [&](Stream& stream) {
    Stream* other = nullptr;
    const hipError_t result = resolve(from, false, &other);
    return result == hipSuccess ? copy_attributes(stream, *other) : result;
  });
}

CPUHIP_EXPORT int hipGetStreamDeviceId(hipStream_t handle) {
  return plain_api("hipGetStreamDeviceId", -1, [&] {
    Stream* stream = nullptr;
    return resolve(handle, false, &stream) == hipSuccess ? stream->device().ordinal() : -1;
  });
}

CPUHIP_EXPORT hipError_t hipStreamWriteValue32(hipStream_t handle, void* address, std::uint32_t value, unsigned) {
  return with_stream("hipStreamWriteValue32", handle, false,
                     [&](Stream& stream) { return write_value(stream, address, value, 4); });
}

CPUHIP_EXPORT hipError_t hipStreamWriteValue64(hipStream_t handle, void* address, std::uint64_t value, unsigned) {
  return with_stream("hipStreamWriteValue64", handle, false,
                     [&](Stream& stream) { return write_value(stream, address, value, 8); });
}

CPUHIP_EXPORT hipError_t hipStreamWaitValue32(hipStream_t handle, void* address, std::uint32_t value, unsigned flags,
                                              std::uint32_t mask) {
  return with_stream("hipStreamWaitValue32", handle, false,
                     [&](Stream& stream) { return wait_value(stream, address, value, mask, flags, 4); });
}

CPUHIP_EXPORT hipError_t hipStreamWaitValue64(hipStream_t handle, void* address, std::uint64_t value, unsigned flags,
                                              std::uint64_t mask) {
  return with_stream("hipStreamWaitValue64", handle, false,
                     [&](Stream& stream) { return wait_value(stream, address, value, mask, flags, 8); });
}

CPUHIP_EXPORT hipError_t hipStreamBatchMemOp(hipStream_t handle, unsigned count, const MemoryOperation* operations,
                                             unsigned flags) {
  return with_stream("hipStreamBatchMemOp", handle, false,
                     [&](Stream& stream) { return batch(stream, operations, count, flags); });
}

CPUHIP_EXPORT hipError_t hipStreamAddCallback(hipStream_t handle, hipStreamCallback_t callback, void* user,
                                              unsigned flags) {
  return with_stream("hipStreamAddCallback", handle, false,
                     [&](Stream& stream) { return add_callback(stream, handle, callback, user, flags); });
}

CPUHIP_EXPORT hipError_t hipStreamAddCallback_spt(hipStream_t handle, hipStreamCallback_t callback, void* user,
                                                  unsigned flags) {
  return with_stream("hipStreamAddCallback_spt", handle, true,
                     [&](Stream& stream) { return add_callback(stream, handle, callback, user, flags); });
}

CPUHIP_EXPORT hipError_t hipLaunchHostFunc(hipStream_t handle, hipHostFn_t function, void* user) {
  return with_stream("hipLaunchHostFunc", handle, false,
                     [&](Stream& stream) { return launch_host(stream, function, user); });
}

CPUHIP_EXPORT hipError_t hipLaunchHostFunc_spt(hipStream_t handle, hipHostFn_t function, void* user) {
  return with_stream("hipLaunchHostFunc_spt", handle, true,
                     [&](Stream& stream) { return launch_host(stream, function, user); });
}
