// readers.h: turns the texts that a key allows into its value. A reader is a type with
//   Value                     the C++ value
//   kForms                    what a TOML file may give: Form bits; an environment variable always gives text
//   read(items, value)        nothing, or which text is wrong (then the value is unspecified)
//   allowed()                 for messages: what is allowed
// Items are the texts given: one, or those of a list. Integers and booleans arrive as their text.
//
// No function here asks the C or C++ locale. Most readers are constexpr, so that defaults are read when compiling.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/glob.h"
#include "policy/values.h"

namespace graphpool::reading {

enum Form : unsigned { kBoolean = 1, kInteger = 2, kString = 4, kList = 8 };

/// Which text is wrong: number `item`, from 0; an `item` past the last: there are too many or too few items.
struct Fault {
  std::size_t item = 0;
};
using Outcome = std::optional<Fault>;
using Items = std::span<const std::string_view>;

constexpr Outcome kGood = std::nullopt;
constexpr Outcome bad(std::size_t item = 0) { return Fault{item}; }

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

constexpr bool same_word(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

/// Reads the digits at `offset` and moves it past them; nothing if there are none or the number needs more than 64
/// bits.
constexpr std::optional<std::uint64_t> digits(std::string_view text, std::size_t& offset) {
  std::size_t start = offset;
  std::uint64_t value = 0;
  for (; offset < text.size() && is_digit(text[offset]); ++offset) {
    std::uint64_t digit = static_cast<std::uint64_t>(text[offset] - '0');
    if (value > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  if (offset == start) return std::nullopt;
  return value;
}

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};
inline constexpr Unit kSizeUnits[] = {{"", 1},           {"B", 1},
                                      {"K", 1ull << 10}, {"KiB", 1ull << 10},
                                      {"M", 1ull << 20}, {"MiB", 1ull << 20},
                                      {"G", 1ull << 30}, {"GiB", 1ull << 30},
                                      {"T", 1ull << 40}, {"TiB", 1ull << 40}};
inline constexpr Unit kTimeUnits[] = {{"ms", 1'000'000}, {"s", 1'000'000'000}, {"min", 60'000'000'000}};
inline constexpr Unit kNoUnits[] = {{"", 1}};

/// number, at most one space, unit; the product must not exceed `most`.
constexpr Outcome quantity(std::string_view text, std::span<const Unit> units, std::uint64_t most, std::uint64_t& out) {
  std::size_t offset = 0;
  std::optional<std::uint64_t> number = digits(text, offset);
  if (!number) return bad();
  if (offset + 1 < text.size() && text[offset] == ' ') ++offset;
  for (const Unit& unit : units) {
    if (!same_word(text.substr(offset), unit.name)) continue;
    if (*number > most / unit.factor) return bad();
    out = *number * unit.factor;
    return kGood;
  }
  return bad();
}

constexpr Outcome size(std::string_view text, std::uint64_t& bytes) {
  return quantity(text, kSizeUnits, std::numeric_limits<std::uint64_t>::max(), bytes);
}

/// "x", ">=x", "<=x" or "x..y"; each number may have one of the units.
constexpr Outcome span(std::string_view text, std::span<const Unit> units, Span& out) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  auto number = [&](std::string_view part, std::uint64_t& value) {
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    return quantity(part, units, kMost, value);
  };
  out = Span{};
  if (text.starts_with(">=")) return number(text.substr(2), out.first);
  if (text.starts_with("<=")) return number(text.substr(2), out.last);
  std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) {
    Outcome fault = number(text, out.first);
    out.last = out.first;
    return fault;
  }
  if (Outcome fault = number(text.substr(0, dots), out.first)) return fault;
  if (Outcome fault = number(text.substr(dots + 2), out.last)) return fault;
  return out.first <= out.last ? kGood : bad();
}

/// Names go into messages and file names: no control characters.
constexpr Outcome printable(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return bad();
  }
  return kGood;
}

inline constexpr std::string_view kSizeHelp = "bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB";

struct Flag {
  using Value = bool;
  static constexpr unsigned kForms = kBoolean;
  static constexpr Outcome read(Items items, Value& value) {
    value = items[0] == "true" || items[0] == "1" || items[0] == "on";
    return value || items[0] == "false" || items[0] == "0" || items[0] == "off" ? kGood : bad();
  }
  static std::string allowed() { return "true, false (in the environment also 1, 0, on, off)"; }
};

template <std::uint32_t Least, std::uint32_t Most>
struct Number {
  using Value = std::uint32_t;
  static constexpr unsigned kForms = kInteger;
  static constexpr Outcome read(Items items, Value& value) {
    std::uint64_t wide = 0;
    if (Outcome fault = quantity(items[0], kNoUnits, Most, wide)) return fault;
    value = static_cast<Value>(wide);
    return value >= Least ? kGood : bad();
  }
  static std::string allowed() { return "an integer from " + std::to_string(Least) + " to " + std::to_string(Most); }
};
using SlotCount = Number<1, 64>;
using Count = Number<1, 1'000'000'000>;

template <std::uint64_t Least, std::uint64_t Most>
struct SizeBetween {
  using Value = Bytes;
  static constexpr unsigned kForms = kInteger | kString;
  static constexpr Outcome read(Items items, Value& value) {
    if (Outcome fault = size(items[0], value.bytes)) return fault;
    return value.bytes >= Least && value.bytes <= Most ? kGood : bad();
  }
  static std::string allowed() {
    std::string text = "a size: " + std::string(kSizeHelp);
    if (Least > 0) text += "; at least " + std::to_string(Least) + " bytes";
    if (Most < std::numeric_limits<std::uint64_t>::max()) text += "; at most " + std::to_string(Most) + " bytes";
    return text;
  }
};
using Size = SizeBetween<0, std::numeric_limits<std::uint64_t>::max()>;
using ChunkSize = SizeBetween<2ull << 20, 1ull << 40>;

struct PartOfMemory {
  using Value = Share;
  static constexpr unsigned kForms = kInteger | kString;
  static constexpr Outcome read(Items items, Value& value) {
    value = Share{};
    if (!items[0].ends_with('%')) return size(items[0], value.bytes);
    std::uint64_t percent = 0;
    if (Outcome fault = quantity(items[0].substr(0, items[0].size() - 1), kNoUnits, 100, percent)) {
      return fault;
    }
    value.percent = static_cast<std::uint32_t>(percent);
    value.is_percent = true;
    return kGood;
  }
  static std::string allowed() { return "0% to 100%, or a size: " + std::string(kSizeHelp); }
};

struct Duration {
  using Value = std::chrono::nanoseconds;
  static constexpr unsigned kForms = kString;
  static constexpr Outcome read(Items items, Value& value) {
    std::uint64_t ns = 0;
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (Outcome fault = quantity(items[0], kTimeUnits, kMost, ns)) return fault;
    value = std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
    return kGood;
  }
  static std::string allowed() { return "a number with ms, s or min"; }
};

struct PermitCount {
  using Value = PermitLimit;
  static constexpr unsigned kForms = kInteger | kString;
  static constexpr Outcome read(Items items, Value& value) {
    value = PermitLimit{};
    if (items[0] == "auto") return kGood;
    return Number<1, 65536>::read(items, value.count);
  }
  static std::string allowed() { return "auto, or " + Number<1, 65536>::allowed(); }
};

struct VerifyRule {
  using Value = Verify;
  static constexpr unsigned kForms = kString;
  static constexpr Outcome read(Items items, Value& value) {
    value = Verify{};
    if (items[0] == "off") return kGood;
    constexpr std::size_t kPrefix = 6;
    if (items[0].starts_with("first:")) {
      value.mode = Verify::Mode::kFirst;
    } else if (items[0].starts_with("every:")) {
      value.mode = Verify::Mode::kEvery;
    } else {
      return bad();
    }
    std::string_view number[] = {items[0].substr(kPrefix)};
    return Count::read(number, value.count);
  }
  static std::string allowed() { return "off, first:K, every:M, where K and M are at least 1"; }
};

template <typename Enum>
struct Name {
  std::string_view text;
  Enum value;
};

/// The words of each enumeration of values.h.
template <typename Enum>
inline constexpr std::nullptr_t kNames = nullptr;
template <>
inline constexpr Name<Backing> kNames<Backing>[] = {
    {"auto", Backing::kAuto}, {"classic", Backing::kClassic}, {"vmm", Backing::kVmm}};
template <>
inline constexpr Name<FreeMode> kNames<FreeMode>[] = {{"sync", FreeMode::kSync}, {"deferred", FreeMode::kDeferred}};
template <>
inline constexpr Name<Stage> kNames<Stage>[] = {
    {"never", Stage::kNever}, {"auto", Stage::kAuto}, {"always", Stage::kAlways}};
template <>
inline constexpr Name<Strategy> kNames<Strategy>[] = {{"auto", Strategy::kAuto},
                                                      {"new_exec", Strategy::kNewExec},
                                                      {"patch", Strategy::kPatch},
                                                      {"one_shot", Strategy::kOneShot}};
template <>
inline constexpr Name<Unknown> kNames<Unknown>[] = {{"off", Unknown::kOff}, {"trust", Unknown::kTrust}};
template <>
inline constexpr Name<Scope> kNames<Scope>[] = {
    {"process", Scope::kProcess}, {"user", Scope::kUser}, {"node", Scope::kNode}};
template <>
inline constexpr Name<Jobserver> kNames<Jobserver>[] = {
    {"off", Jobserver::kOff}, {"honour", Jobserver::kHonour}, {"offer", Jobserver::kOffer}};
template <>
inline constexpr Name<LogLevel> kNames<LogLevel>[] = {{"off", LogLevel::kOff},     {"error", LogLevel::kError},
                                                      {"warn", LogLevel::kWarn},   {"info", LogLevel::kInfo},
                                                      {"debug", LogLevel::kDebug}, {"trace", LogLevel::kTrace}};
template <>
inline constexpr Name<Action> kNames<Action>[] = {{"pool", Action::kPool}, {"pass", Action::kPass}};
template <>
inline constexpr Name<Role> kNames<Role>[] = {
    {"inout", Role::kInOut}, {"in", Role::kIn}, {"out", Role::kOut}, {"temp", Role::kTemp}};

/// The word for a value, as it is written in a policy.
template <typename Enum>
constexpr std::string_view name_of(Enum value) {
  for (const Name<Enum>& name : kNames<Enum>) {
    if (name.value == value) return name.text;
  }
  return "";
}

template <typename Enum>
struct Choice {
  using Value = Enum;
  static constexpr unsigned kForms = kString;
  static constexpr Outcome read(Items items, Value& value) {
    for (const Name<Enum>& name : kNames<Enum>) {
      if (name.text != items[0]) continue;
      value = name.value;
      return kGood;
    }
    return bad();
  }
  static std::string allowed() {
    std::string text;
    for (const Name<Enum>& name : kNames<Enum>) {
      if (!text.empty()) text += ", ";
      text += name.text;
    }
    return text;
  }
};

struct SizeSpan {
  using Value = Span;
  static constexpr unsigned kForms = kInteger | kString;
  static constexpr Outcome read(Items items, Value& value) { return span(items[0], kSizeUnits, value); }
  static std::string allowed() {
    return "a size, \">=size\", \"<=size\" or \"size..size\"; a size is " + std::string(kSizeHelp);
  }
};

struct IndexSpan {
  using Value = Span;
  static constexpr unsigned kForms = kInteger | kString;
  static constexpr Outcome read(Items items, Value& value) { return span(items[0], kNoUnits, value); }
  static std::string allowed() { return "a number from 0, \">=n\", \"<=n\" or \"n..m\""; }
};

struct Text {
  using Value = std::string;
  static constexpr unsigned kForms = kString;
  static Outcome read(Items items, Value& value) {
    value = items[0];
    return printable(items[0]);
  }
  static std::string allowed() { return "text without control characters"; }
};

struct GlobText {
  using Value = Glob;
  static constexpr unsigned kForms = kString;
  static Outcome read(Items items, Value& value) {
    value = Glob(items[0]);
    return printable(items[0]);
  }
  static std::string allowed() { return "a pattern; * stands for any characters, ? for one"; }
};

struct GlobList {
  using Value = std::vector<Glob>;
  static constexpr unsigned kForms = kString | kList;
  static Outcome read(Items items, Value& value) {
    value.clear();
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].empty() || printable(items[i])) return bad(i);
      value.emplace_back(items[i]);
    }
    return kGood;
  }
  static std::string allowed() {
    return "a list of patterns, none empty (in the environment separated by commas); * stands for any characters, "
           "? for one";
  }
};

struct DeviceList {
  using Value = std::vector<std::uint32_t>;
  static constexpr unsigned kForms = kInteger | kList;
  static Outcome read(Items items, Value& value) {
    value.clear();
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::uint32_t device = 0;
      if (Number<0, 65535>::read(items.subspan(i, 1), device)) return bad(i);
      value.push_back(device);
    }
    return kGood;
  }
  static std::string allowed() { return "a device number from 0, or a list of them"; }
};

struct ByteRange {
  using Value = WrittenRange;
  static constexpr unsigned kForms = kInteger | kString | kList;
  static constexpr Outcome read(Items items, Value& value) {
    if (items.size() != 2) return bad(items.size());
    if (Outcome fault = size(items[0], value.offset_bytes)) return fault;
    if (size(items[1], value.length_bytes)) return bad(1);
    bool fits = value.length_bytes <= std::numeric_limits<std::uint64_t>::max() - value.offset_bytes;
    return fits ? kGood : bad(1);
  }
  static std::string allowed() { return "[offset, length], each " + std::string(kSizeHelp); }
};

/// The items of a text: those between commas if the reader takes a list (none if the text is empty), else the text.
template <typename Reader>
constexpr std::vector<std::string_view> items_of(std::string_view text) {
  std::vector<std::string_view> items;
  if (!(Reader::kForms & kList)) {
    items.push_back(text);
    return items;
  }
  while (!text.empty()) {
    std::size_t comma = text.find(',');
    items.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) items.push_back(text);
  }
  return items;
}

}  // namespace graphpool::reading

namespace graphpool {
using reading::name_of;
}  // namespace graphpool
