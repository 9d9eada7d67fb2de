// keys.cpp: the tables of keys.h, generated from policy_keys.def.
#include "policy/keys.h"

#include <type_traits>

namespace graphpool {
namespace {

/// Where the value is a plain one, a default that its reader refuses does not compile. Tests see to the others.
template <typename Reader>
constexpr bool is_good_default(std::string_view text) {
  if constexpr (std::is_trivially_copyable_v<typename Reader::Value>) {
    typename Reader::Value value{};
    return !Reader::read(reading::items_of<Reader>(text), value).has_value();
  } else {
    return true;
  }
}
#define POLICY_TOP(name, reader, fallback, help) \
  static_assert(is_good_default<reading::reader>(fallback), "policy_keys.def: bad default of " #name);
#define POLICY_KEY(section, name, reader, fallback, help) \
  static_assert(is_good_default<reading::reader>(fallback), "policy_keys.def: bad default of " #section "." #name);
#define BUFFER_KEY(name, reader, fallback, help) \
  static_assert(is_good_default<reading::reader>(fallback), "policy_keys.def: bad default of buffer." #name);
#include "policy/policy_keys.def"

constexpr Key<Policy> kPolicyKeys[] = {
#define POLICY_TOP(name, reader, fallback, help)                                                   \
  {"",                                                                                             \
   #name,                                                                                          \
   fallback,                                                                                       \
   help,                                                                                           \
   reading::reader::kForms,                                                                        \
   [](Policy& policy, reading::Items items) { return reading::reader::read(items, policy.name); }, \
   &reading::items_of<reading::reader>,                                                            \
   &reading::reader::allowed},
#define POLICY_KEY(section, name, reader, fallback, help)                                                  \
  {#section,                                                                                               \
   #name,                                                                                                  \
   fallback,                                                                                               \
   help,                                                                                                   \
   reading::reader::kForms,                                                                                \
   [](Policy& policy, reading::Items items) { return reading::reader::read(items, policy.section.name); }, \
   &reading::items_of<reading::reader>,                                                                    \
   &reading::reader::allowed},
#include "policy/policy_keys.def"
};

constexpr Key<BufferRule> kBufferKeys[] = {
#define BUFFER_KEY(name, reader, fallback, help)                      \
  {"buffer",                                                          \
   #name,                                                             \
   fallback,                                                          \
   help,                                                              \
   reading::reader::kForms,                                           \
   [](BufferRule& rule, reading::Items items) {                       \
     rule.said |= 1u << static_cast<unsigned>(BufferRule::Key::name); \
     return reading::reader::read(items, rule.name);                  \
   },                                                                 \
   &reading::items_of<reading::reader>,                               \
   &reading::reader::allowed},
#include "policy/policy_keys.def"
};
static_assert(std::size(kBufferKeys) <= 32, "BufferRule::said holds one bit a key: widen it");

constexpr Section kSections[] = {
#define POLICY_SECTION(type, section, help) {#section, help},
#include "policy/policy_keys.def"
};

constexpr Reserved kReserved[] = {
#define POLICY_RESERVED(name, help) {#name, help},
#include "policy/policy_keys.def"
};

}  // namespace

std::span<const Key<Policy>> policy_keys() noexcept { return kPolicyKeys; }
std::span<const Key<BufferRule>> buffer_keys() noexcept { return kBufferKeys; }
std::span<const Section> policy_sections() noexcept { return kSections; }
std::span<const Reserved> reserved_variables() noexcept { return kReserved; }

std::string variable_name(const Key<Policy>& key) {
  std::string text = "GRAPHPOOL_";
  if (!key.section.empty()) text.append(key.section).push_back('_');
  text += key.name;
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

}  // namespace graphpool
