// api.cpp: the frame of every exported function, and the functions about errors, versions and names.
// Nothing here locks while the journal and the failure switches are off.
#include "api.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/error_names.h"
#include "common/look_up.h"
#include "device.h"
#include "graph.h"
#include "stream.h"

extern "C" const int cpuhip_default_version;  // version.cpp: by SONAME

namespace cpuhip {
namespace {

/// One CPUHIP_FAIL or CPUHIP_COST entry.
struct Rule {
  std::string name;
  std::uint64_t number = 0;  ///< which call, or nanoseconds
  int code = -1;             ///< -1: by the kind of call
  std::atomic<std::uint64_t> calls{0};
};

struct Settings {
  Config config;
  int journal = -1;
  std::vector<Rule*> failures, costs;
  bool any = false;  ///< anything but the plain way
};

/// Calls that leave the last error as it was where a stream captures them, up to HIP 6 (seen of AMD's 5.7.1 and 6.4.3),
/// and where its capture was invalidated, HIP 7 as well (6.4.3 and 7.2.4).
constexpr std::array<std::string_view, 15> kLeaveErrorCaptured = {
    "hipExtLaunchKernel",     "hipExtModuleLaunchKernel", "hipFreeAsync",         "hipMallocAsync",
    "hipMallocFromPoolAsync", "hipMemcpy2DAsync",         "hipMemcpyDtoDAsync",   "hipMemcpyDtoHAsync",
    "hipMemcpyHtoDAsync",     "hipMemcpyParam2DAsync",    "hipMemcpyWithStream",  "hipMemsetD16Async",
    "hipMemsetD32Async",      "hipMemsetD8Async",         "hipModuleLaunchKernel"};
static_assert(std::ranges::is_sorted(kLeaveErrorCaptured));

/// The thread's state; plain data, so that it works at any time of a thread's life.
struct ThreadState {
  const char* call = "";
  hipError_t last_error = hipSuccess, last_result = hipSuccess;
  int number = 0;
};
thread_local ThreadState t_state;
std::atomic<int> g_threads{0};

std::uint64_t number_of(const char* variable, std::string_view text) {
  char* end = nullptr;
  const std::string copy(text);
  const std::uint64_t value = std::strtoull(copy.c_str(), &end, 0);
  if (copy.empty() || *end != 0) fatal("%s: '%s' is not a number", variable, copy.c_str());
  return value;
}

std::uint64_t number_from_environment(const char* variable, std::uint64_t otherwise, std::uint64_t largest) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == 0) return otherwise;
  const std::uint64_t value = number_of(variable, text);
  if (value > largest) fatal("%s: %s is above %llu", variable, text, static_cast<unsigned long long>(largest));
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return parts;
}

std::vector<Rule*> read_rules(const char* variable) {
  std::vector<Rule*> rules;
  const char* text = std::getenv(variable);
  for (const std::string_view entry : split(text != nullptr ? text : "", ',')) {
    const auto parts = split(entry, ':');
    if (parts.size() < 2 || parts.size() > 3) {
      fatal("%s: '%.*s' is not name:number[:code]", variable, static_cast<int>(entry.size()), entry.data());
    }
    Rule* rule = new Rule;
    rule->name = parts[0];
    rule->number = number_of(variable, parts[1]);
    if (parts.size() == 3) rule->code = static_cast<int>(number_of(variable, parts[2]));
    rules.push_back(rule);
  }
  return rules;
}

Reuse read_reuse() {
  const char* text = std::getenv("CPUHIP_REUSE");
  const std::string_view mode = text != nullptr ? text : "late";
  if (mode == "late") return Reuse::Late;
  if (mode == "never") return Reuse::Never;
  if (mode == "once" || mode == "always") return Reuse::Once;
  if (mode == "random") return Reuse::Random;
  fatal("CPUHIP_REUSE: '%s' is none of late, never, once, always, random", text);
}

Gone read_gone() {
  const char* text = std::getenv("CPUHIP_GONE");
  const std::string_view mode = text != nullptr ? text : "fatal";
  if (mode == "fatal") return Gone::Fatal;
  if (mode == "refused") return Gone::Refused;
  if (mode == "looked_up") return Gone::LookedUp;
  fatal("CPUHIP_GONE: '%s' is none of fatal, refused, looked_up", text);
}

int open_journal() {
  const char* path = std::getenv("CPUHIP_JOURNAL");
  if (path == nullptr || *path == 0) return -1;
  std::string name(path);
  if (const std::size_t place = name.find("%p"); place != std::string::npos) {
    name.replace(place, 2, std::to_string(getpid()));
  }
  const int descriptor = open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) fatal("CPUHIP_JOURNAL: cannot open '%s'", name.c_str());
  return descriptor;
}

const Settings& settings() {
  static const Settings& instance = *[] {
    auto* read = new Settings;
    read->config.devices = static_cast<int>(number_from_environment("CPUHIP_DEVICES", 1, kMaxDevices));
    read->config.version = static_cast<int>(number_from_environment(
        "CPUHIP_VERSION", static_cast<std::uint64_t>(cpuhip_default_version), std::numeric_limits<int>::max()));
    read->config.memory_bytes =
        number_from_environment("CPUHIP_MEMORY", std::uint64_t{1} << 30, std::uint64_t{1} << 44);
    if (const char* const shared = std::getenv("CPUHIP_SHARED"); shared != nullptr && *shared != 0)
      read->config.shared = shared;
    read->config.reuse = read_reuse();
    read->config.gone = read_gone();
    read->config.poison = number_from_environment("CPUHIP_POISON", 1, 1) != 0;
    read->config.vmm = number_from_environment("CPUHIP_VMM", 1, 1) != 0;
    read->config.queues = static_cast<int>(number_from_environment("CPUHIP_QUEUES", 0, 64));
    read->config.serialise = number_from_environment("CPUHIP_SERIALISE", 0, 1) != 0;
    read->config.jitter_us = number_from_environment("CPUHIP_JITTER", 0, 1'000'000);
    read->journal = open_journal();
    read->failures = read_rules("CPUHIP_FAIL");
    read->costs = read_rules("CPUHIP_COST");
    read->any = read->journal >= 0 || !read->failures.empty() || !read->costs.empty();
    return read;
  }();
  return instance;
}

bool names(const Rule& rule, const char* call) { return rule.name == "*" || rule.name == call; }

bool allocates(std::string_view name) {
  return name.find("Malloc") != name.npos || name.find("HostAlloc") != name.npos || name == "hipMemCreate" ||
         name.find("MemAlloc") != name.npos;
}

/// cpuhip_fail(): calls left until one fails, 0: none will; and its code.
std::atomic<std::int64_t> g_fail_after{0};
std::atomic<int> g_fail_code{0};

bool fails_now() {
  if (g_fail_after.load(std::memory_order_relaxed) <= 0) return false;
  return g_fail_after.fetch_sub(1) == 1;
}

hipError_t injected_failure(const char* name) {
  hipError_t result = hipSuccess;
  for (Rule* rule : settings().failures) {
    if (!names(*rule, name) || (rule->calls.fetch_add(1) + 1 != rule->number && rule->number != 0)) continue;
    if (rule->code >= 0) {
      result = static_cast<hipError_t>(rule->code);
    } else {
      result = allocates(name) ? hipErrorOutOfMemory : hipErrorUnknown;
    }
  }
  return result;
}

void pay(const char* name) {
  std::int64_t cost_ns = 0;
  for (const Rule* rule : settings().costs) {
    if (names(*rule, name)) cost_ns += static_cast<std::int64_t>(rule->number);
  }
  if (cost_ns == 0) return;
  for (const std::int64_t end_ns = now_ns() + cost_ns; now_ns() < end_ns;) {
  }
}

void write_line(const char* name, hipStream_t stream, int result) {
  if (t_state.number == 0) t_state.number = ++g_threads;
  char handle[24] = "-";
  if (stream != nullptr) std::snprintf(handle, sizeof handle, "%p", static_cast<void*>(stream));
  char line[256];
  const int length = std::snprintf(line, sizeof line, "%s %d %d %s %llu %d\n", name, t_state.number,
                                   device_count() > 0 ? current_device().ordinal() : -1, handle,
                                   static_cast<unsigned long long>(generation_of(stream)), result);
  // One write to a file opened for appending: lines of several threads and processes stay whole.
  if (write(settings().journal, line, static_cast<std::size_t>(length)) != length) fatal("cannot write the journal");
}

}  // namespace

const Config& config() { return settings().config; }

void jitter() {
  const std::uint64_t most_us = config().jitter_us;
  if (most_us == 0) return;
  static std::atomic<std::minstd_rand::result_type> threads{0};
  thread_local std::minstd_rand random(++threads);
  if (random() % 4 != 0) return;
  const int saved = errno;
  std::this_thread::sleep_for(std::chrono::microseconds(random() % (most_us + 1)));
  errno = saved;
}

const char* current_call() { return t_state.call; }

void fatal(const char* format, ...) {
  char text[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "cpuhip: %s%s%s\n", t_state.call, *t_state.call != 0 ? ": " : "", text);
  std::abort();
}

Call::Call(const char* name, Effect effect) : name_(name), outer_name_(t_state.call) {
  t_state.call = name;
  jitter();
  read_node_id();
  if (settings().any) {
    pay(name);
    injected_ = injected_failure(name);
  }
  if (fails_now()) injected_ = static_cast<hipError_t>(g_fail_code.load());
  if (injected_ == hipSuccess && effect == Effect::Device) {
    injected_ = device_count() > 0 ? current_device().sticky.load(std::memory_order_relaxed) : hipErrorNoDevice;
  }
}

Call::~Call() {
  // errno is the program's: most entries touch it only here.
  if (settings().journal >= 0) {
    const int saved = errno;
    write_line(name_, stream_, result_);
    errno = saved;
  }
  t_state.call = outer_name_;
}

void Call::leaves_last_error() { leaves_last_error_ = config().version / 10000000 == 6; }

void Call::goes_into(hipStreamCaptureStatus capture) {
  const bool leave = capture == hipStreamCaptureStatusInvalidated ||
                     (capture == hipStreamCaptureStatusActive && config().version < 70000000);
  if (leave && std::ranges::binary_search(kLeaveErrorCaptured, std::string_view(name_))) leaves_last_error_ = true;
}

hipError_t Call::leave(hipError_t result) {
  if (config().serialise) finish_serialised();
  result_ = result;
  t_state.last_result = result;
  if (leaves_last_error_) return result;
  // Up to HIP 6 the last error is the last call's result, success included; HIP 7 keeps the last real error.
  if (config().version < 70000000 || (result != hipSuccess && result != hipErrorNotReady)) {
    t_state.last_error = result;
  }
  return result;
}

// Called by the generated stand-ins.
int stand_in(const char* name) {
  return query_api(name, [](Call&) { return hipErrorNotSupported; });
}

int stand_in_rtc(const char* name) {
  constexpr int kInternalError = 11;  // HIPRTC_ERROR_INTERNAL_ERROR
  return plain_api(name, kInternalError, [] { return kInternalError; });
}

void* stand_in_pointer(const char* name) {
  journal(name);
  return nullptr;
}

namespace {}  // namespace
}  // namespace cpuhip

using namespace cpuhip;

CPUHIP_EXPORT void cpuhip_fail(unsigned long long after, int code) {
  g_fail_code = code;
  g_fail_after = static_cast<std::int64_t>(after);
}

CPUHIP_EXPORT hipError_t hipGetLastError() {
  Call call("hipGetLastError", Call::Effect::Query);
  const hipError_t error = t_state.last_error;
  t_state.last_error = hipSuccess;
  call.leave_other(error);
  return error;
}

CPUHIP_EXPORT hipError_t hipPeekAtLastError() {
  Call call("hipPeekAtLastError", Call::Effect::Query);
  call.leave_other(t_state.last_error);
  return t_state.last_error;
}

CPUHIP_EXPORT hipError_t hipExtGetLastError() {
  Call call("hipExtGetLastError", Call::Effect::Query);
  const hipError_t error = t_state.last_result;
  t_state.last_result = hipSuccess;
  call.leave_other(error);
  return error;
}

CPUHIP_EXPORT const char* hipGetErrorName(hipError_t code) {
  journal("hipGetErrorName");
  return hipfront::error_name(code);
}

CPUHIP_EXPORT const char* hipGetErrorString(hipError_t code) {
  journal("hipGetErrorString");
  return hipfront::error_text(code);
}

CPUHIP_EXPORT hipError_t hipDrvGetErrorName(hipError_t code, const char** name) {
  return query_api("hipDrvGetErrorName", [&](Call&) { return hipfront::find_error_name(code, name); });
}

CPUHIP_EXPORT hipError_t hipDrvGetErrorString(hipError_t code, const char** text) {
  return query_api("hipDrvGetErrorString", [&](Call&) { return hipfront::find_error_text(code, text); });
}

CPUHIP_EXPORT hipError_t hipInit(unsigned flags) {
  return api("hipInit", [&](Call&) { return flags == 0 ? hipSuccess : hipErrorInvalidValue; });
}

CPUHIP_EXPORT hipError_t hipRuntimeGetVersion(int* version) {
  return query_api("hipRuntimeGetVersion", [&](Call&) {
    if (version == nullptr) return hipErrorInvalidValue;
    *version = config().version;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipDriverGetVersion(int* version) {
  return query_api("hipDriverGetVersion", [&](Call&) {
    if (version == nullptr) return hipErrorInvalidValue;
    *version = config().version;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipGetProcAddress(const char* symbol, void** function, int version, std::uint64_t,
                                           int* status) {
  return query_api("hipGetProcAddress",
                   [&](Call&) { return hipfront::look_up(symbol, function, version, status, false); });
}

CPUHIP_EXPORT hipError_t hipGetProcAddress_spt(const char* symbol, void** function, int version, std::uint64_t,
                                               int* status) {
  return query_api("hipGetProcAddress_spt",
                   [&](Call&) { return hipfront::look_up(symbol, function, version, status, true); });
}
