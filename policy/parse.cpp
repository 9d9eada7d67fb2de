// parse.cpp: see parse.h. The one file that includes toml++: headers only, without exceptions.
//
// toml++ 3.3 is guarded against what it cannot bear: text without end (kLongestTextBytes), keys nested so deep that its
// recursive destructors run out of stack (kMostDots a line, TOML_MAX_NESTED_VALUES), and other than ASCII where it asks
// whether that is white space (for some it is undefined behaviour then): outside strings and comments, where it would
// be an error in any case, and after a backslash in multi-line strings.
#include "policy/parse.h"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 8
// toml++ 3.3 asserts what a text can break ("[#"). The asserts must neither abort the host nor, as they do with NDEBUG,
// become promises to the optimiser; the code behind them then reports the error.
#undef NDEBUG
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <utility>

#include "policy/nearest.h"

namespace graphpool {
namespace {

using namespace reading;

constexpr std::size_t kMostDots = 32;
constexpr std::size_t kLongestQuote = 64;
constexpr std::size_t kLongestReason = 300;

struct Position {
  std::size_t line = 1;
  std::size_t column = 1;
  auto operator<=>(const Position&) const = default;
};

Position position_of(const toml::source_region& region) { return {region.begin.line, region.begin.column}; }

/// Text of the user in a message: bounded, one line, and nothing a terminal would obey.
std::string tamed(std::string_view text, std::size_t most) {
  std::string result;
  for (char c : text.substr(0, most)) {
    unsigned char byte = static_cast<unsigned char>(c);
    result += byte < 0x20 || byte >= 0x7f ? '?' : c;
  }
  return text.size() > most ? result + "..." : result;
}

std::string quoted(std::string_view text) { return "\"" + tamed(text, kLongestQuote) + "\""; }

std::string joined(std::span<const std::string_view> names) {
  std::string text;
  for (std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

std::string unknown(std::string_view what, std::string_view name, std::span<const std::string_view> candidates) {
  std::string text = std::string(what) + " " + quoted(name);
  std::string_view near = nearest(name, candidates);
  if (!near.empty()) text += ", did you mean " + quoted(near) + "?";
  return text + "; allowed: " + joined(candidates);
}

template <typename Target>
std::string refused(const Key<Target>& key, const std::string& what) {
  return full_name(key) + ": " + what + "; allowed: " + key.allowed();
}

const char* kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a floating-point number";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

/// The text of a scalar, if its kind is one of `forms`.
bool scalar_text(const toml::node& node, unsigned forms, std::string& text) {
  if (const auto* boolean = node.as_boolean(); boolean && (forms & kBoolean)) {
    text = boolean->get() ? "true" : "false";
  } else if (const auto* integer = node.as_integer(); integer && (forms & kInteger)) {
    text = std::to_string(integer->get());
  } else if (const auto* string = node.as_string(); string && (forms & kString)) {
    text = string->get();
  } else {
    return false;
  }
  return true;
}

struct Obstacle {
  Position at;
  const char* message;
};

/// What keeps toml++ from being given a text. Sees strings and comments as TOML does, as long as the text is valid.
std::optional<Obstacle> obstacle(std::string_view text) {
  constexpr std::string_view kMultiLine = "\"\"\"";
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Position at;
  std::size_t dots = 0;
  std::string_view closing;  // of the string or comment we are in
  for (std::size_t i = 0; i < text.size(); ++i, ++at.column) {
    const char c = text[i];
    if (c == '\n') {
      at = {at.line + 1, 0};
      dots = 0;
      if (closing.size() < 3) closing = {};
      continue;
    }
    std::size_t length = 1;
    if (!closing.empty()) {
      if (static_cast<unsigned char>(c) >= 0x80 && closing == kMultiLine) {
        return Obstacle{at, "not supported: other than ASCII in a multi-line \"\"\" string"};
      } else if (c == '\\' && closing[0] == '"' && !text.substr(i).starts_with("\\\n")) {
        length = 2;
      } else if (text.substr(i).starts_with(closing)) {
        length = closing.size();
        // A multi-line string may end in up to two quotes of its own before the three that close it.
        for (int more = 0; closing.size() == 3 && more < 2 && text.substr(i + length).starts_with(c); ++more) ++length;
        closing = {};
      }
    } else if (c == '#') {
      closing = "\n";
    } else if (c == '"' || c == '\'') {
      // What follows would be taken for a string here, and for more of a number or word by toml++.
      constexpr std::string_view kBeforeString = " \t\n=[,{.";
      if (i > 0 && kBeforeString.find(text[i - 1]) == std::string_view::npos)
        return Obstacle{at, "not TOML: a quotation mark in the middle of a word"};
      for (std::string_view opening : {"\"\"\"", "'''", "\"", "'"}) {
        if (!text.substr(i).starts_with(opening)) continue;
        closing = opening;
        length = opening.size();
        break;
      }
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      return Obstacle{at, "not TOML: other than ASCII outside a string or comment"};
    } else if (c == '.' && ++dots > kMostDots) {
      return Obstacle{at, "key nested too deep; allowed: section and key"};
    }
    i += length - 1;
    at.column += length - 1;
  }
  return std::nullopt;
}

class TextReader {
 public:
  /// origin: the place of the text's first character. one_line: leave lines out of messages.
  TextReader(std::string_view place, Position origin, bool one_line)
      : place_(place), origin_(origin), one_line_(one_line) {}

  void error(Position at, std::string message) { errors_.emplace_back(at, std::move(message)); }

  std::vector<std::string> take_errors() {
    std::stable_sort(errors_.begin(), errors_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> messages;
    for (auto& [at, message] : errors_) {
      if (messages.size() == kMostErrors) {
        messages.push_back(std::string(place_) + ": and " + std::to_string(errors_.size() - kMostErrors) + " more");
        break;
      }
      std::size_t line = at.line - 1 + origin_.line;
      std::size_t column = at.line == 1 ? at.column - 1 + origin_.column : at.column;
      std::string where = one_line_ ? "" : std::to_string(line) + ":";
      messages.push_back(std::string(place_) + ":" + where + std::to_string(column) + ": " + message);
    }
    return messages;
  }

  /// The root table of a text; an empty one and an error if it is not TOML.
  toml::table parse(std::string_view text) {
    if (text.size() > kLongestTextBytes) {
      error({}, "text of " + std::to_string(text.size()) + " bytes; allowed: " + std::to_string(kLongestTextBytes));
      return {};
    }
    if (std::optional<Obstacle> found = obstacle(text)) {
      error(found->at, found->message);
      return {};
    }
    toml::parse_result result = toml::parse(text);
    if (result) return std::move(result).table();
    error(position_of(result.error().source()), "not TOML: " + tamed(result.error().description(), kLongestReason));
    return {};
  }

  template <typename Target>
  void read_value(const Key<Target>& key, const toml::node& node, Target& target) {
    const toml::array* list = key.forms & kList ? node.as_array() : nullptr;
    std::vector<std::string> texts(list ? list->size() : 1);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const toml::node& item = list ? *list->get(i) : node;
      if (scalar_text(item, key.forms, texts[i])) continue;
      error(position_of(item.source()), refused(key, kind_of(item)));
      return;
    }
    std::vector<std::string_view> items(texts.begin(), texts.end());
    Outcome fault = key.read(target, items);
    if (!fault) return;
    bool in_item = fault->item < items.size();
    const toml::node& item = list && in_item ? *list->get(fault->item) : node;
    error(position_of(item.source()), refused(key, in_item ? "bad value " + quoted(items[fault->item])
                                                           : "a list of " + std::to_string(items.size())));
  }

  /// All keys of one table, among the rows of `section`.
  template <typename Target>
  void read_table(const toml::table& table, std::span<const Key<Target>> keys, std::string_view section,
                  Target& target) {
    for (const auto& [label, node] : table) {
      std::string_view name = label.str();
      auto row = std::find_if(keys.begin(), keys.end(),
                              [&](const Key<Target>& key) { return key.section == section && key.name == name; });
      if (row != keys.end()) {
        read_value(*row, node, target);
        continue;
      }
      std::vector<std::string_view> names;
      for (const Key<Target>& key : keys) {
        if (key.section == section) names.push_back(key.name);
      }
      error(position_of(label.source()), unknown("unknown key", name, names) + " (in [" + std::string(section) + "])");
    }
  }

  void read_buffers(const toml::node& node, Position at, Policy& policy) {
    const toml::array* list = node.as_array();
    policy.buffers.clear();
    if (!list) {
      error(at, std::string("buffer: ") + kind_of(node) + "; allowed: [[buffer]] tables");
      return;
    }
    for (const toml::node& item : *list) {
      const toml::table* table = item.as_table();
      if (table) {
        read_table(*table, buffer_keys(), "buffer", policy.buffers.emplace_back());
      } else {
        error(position_of(item.source()), std::string("buffer: ") + kind_of(item) + "; allowed: [[buffer]] tables");
      }
    }
  }

  void read_root(const toml::table& root, Policy& policy) {
    for (const auto& [label, node] : root) {
      std::string_view name = label.str();
      Position at = position_of(label.source());
      if (name == "buffer") {
        read_buffers(node, at, policy);
        continue;
      }
      auto keys = policy_keys();
      auto top = std::find_if(keys.begin(), keys.end(),
                              [&](const Key<Policy>& key) { return key.section.empty() && key.name == name; });
      if (top != keys.end()) {
        read_value(*top, node, policy);
        continue;
      }
      auto sections = policy_sections();
      bool is_section =
          std::any_of(sections.begin(), sections.end(), [&](const Section& section) { return section.name == name; });
      if (!is_section) {
        std::vector<std::string_view> names;
        for (const Key<Policy>& key : keys) {
          if (key.section.empty() && !node.is_table()) names.push_back(key.name);
        }
        for (const Section& section : sections) names.push_back(section.name);
        names.push_back("buffer");
        error(at, unknown(node.is_table() ? "unknown section" : "unknown key", name, names));
      } else if (const toml::table* table = node.as_table()) {
        read_table(*table, keys, name, policy);
      } else {
        error(at, std::string(name) + ": " + kind_of(node) + "; allowed: a section, [" + std::string(name) + "]");
      }
    }
  }

 private:
  std::string_view place_;
  Position origin_;
  bool one_line_;
  std::vector<std::pair<Position, std::string>> errors_;
};

}  // namespace

std::vector<std::string> parse_policy(std::string_view text, std::string_view file, Policy& policy) {
  TextReader reader(file, {}, false);
  reader.read_root(reader.parse(text), policy);
  return reader.take_errors();
}

std::vector<std::string> parse_buffers(std::string_view text, std::string_view place, Policy& policy) {
  // An array becomes TOML by an assignment before it, which columns must not count. They may wrap on the way, not
  // in the sum: an error lies behind the assignment.
  std::size_t start = text.find_first_not_of(" \t\r\n");
  bool is_array = start != std::string_view::npos && text[start] == '[' && !text.substr(start).starts_with("[[");
  std::string_view blank = is_array ? text.substr(0, start) : std::string_view();
  std::string_view rest = text.substr(blank.size());
  Position origin;
  origin.line += static_cast<std::size_t>(std::count(blank.begin(), blank.end(), '\n'));
  origin.column += blank.size() - (blank.find_last_of('\n') + 1);
  std::string whole = is_array ? "buffer = " + std::string(rest) : std::string(rest);
  if (is_array) origin.column -= whole.size() - rest.size();
  TextReader reader(place, origin, text.find('\n') == std::string_view::npos);
  toml::table root = reader.parse(whole);
  policy.buffers.clear();
  for (const auto& [name, node] : root) {
    if (name.str() == "buffer") {
      reader.read_buffers(node, position_of(name.source()), policy);
    } else {
      reader.error(position_of(name.source()), "unknown key " + quoted(name.str()) + "; allowed: [[buffer]] tables");
    }
  }
  return reader.take_errors();
}

std::vector<std::string> parse_value(std::string_view text, std::string_view place, const Key<Policy>& key,
                                     Policy& policy) {
  std::vector<std::string_view> items = key.items(text);
  Outcome fault = key.read(policy, items);
  if (!fault) return {};
  std::size_t offset = fault->offset;
  if (fault->item < items.size()) offset += static_cast<std::size_t>(items[fault->item].data() - text.data());
  return {std::string(place) + ":" + std::to_string(offset + 1) + ": " + refused(key, "bad value " + quoted(text))};
}

}  // namespace graphpool
