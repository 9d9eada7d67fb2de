#include "rtc_scan.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace cpuhip {
namespace {

struct Token {
  enum class Kind { Identifier, String, Other };
  Kind kind = Kind::Other;
  std::string_view text;
  std::size_t at = 0;
};

bool identifier_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Tokens of preprocessed text: no comments are left; lines that begin with # are line markers.
std::vector<Token> tokenize(std::string_view text) {
  std::vector<Token> tokens;
  bool line_start = true;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\n') {
      line_start = true;
      ++i;
      continue;
    }
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++i;
      continue;
    }
    if (c == '#' && line_start) {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    line_start = false;
    const std::size_t begin = i;
    auto kind = Token::Kind::Other;
    if (identifier_char(c)) {  // numbers too: nobody here asks for them
      while (i < text.size() && identifier_char(text[i])) ++i;
      kind = Token::Kind::Identifier;
      const std::string_view word = text.substr(begin, i - begin);
      if (i < text.size() && text[i] == '"' && word.back() == 'R' && word.size() <= 3) {
        const std::size_t open = std::min(text.find('(', i), text.size() - 1);
        std::string close(1, ')');
        close.append(text.substr(i + 1, open - i - 1)).append(1, '"');
        i = std::min(text.find(close, open), text.size() - close.size()) + close.size();
        kind = Token::Kind::String;
      }
    } else if (c == '"' || c == '\'') {
      for (++i; i < text.size() && text[i] != c; ++i)
        if (text[i] == '\\') ++i;
      i = std::min(i + 1, text.size());
      kind = Token::Kind::String;
    } else if (text.substr(i, 2) == "::") {
      i += 2;
    } else {
      ++i;
    }
    tokens.push_back({kind, text.substr(begin, i - begin), begin});
  }
  return tokens;
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text), tokens_(tokenize(text)) {}

  ScannedSource run() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const std::string_view t = tokens_[i].text;
      if (t == "{") {
        open_scope(i);
      } else if (t == "}") {
        if (!scopes_.empty()) scopes_.pop_back();
        declaration_ = i + 1;
      } else if (t == ";") {
        declaration_ = i + 1;
      } else if (t == "__global__" && at_namespace_scope()) {
        i = kernel(i);
      } else if (t == "extern" && text_at(i + 1) == "__shared__" && !at_namespace_scope()) {
        i = dynamic_shared(i);
      }
    }
    result_.text += text_.substr(copied_);
    return std::move(result_);
  }

 private:
  struct Scope {
    bool is_namespace = false;
    std::string name;  // with a trailing "::"; empty for extern "C", anonymous and inline namespaces
  };

  std::string_view text_at(std::size_t i) const { return i < tokens_.size() ? tokens_[i].text : std::string_view(); }
  bool at_namespace_scope() const {
    return std::all_of(scopes_.begin(), scopes_.end(), [](const Scope& s) { return s.is_namespace; });
  }

  void open_scope(std::size_t brace) {
    Scope scope;
    const std::string_view first = text_at(declaration_);
    const bool is_inline = first == "inline" && text_at(declaration_ + 1) == "namespace";
    if (first == "namespace" || is_inline) {
      scope.is_namespace = true;
      for (std::size_t i = declaration_ + (is_inline ? 2 : 1); i < brace; ++i)
        if (text_at(i) != "inline") scope.name += text_at(i);
      if (!scope.name.empty()) scope.name += "::";
    } else if (first == "extern" && declaration_ + 2 == brace) {
      scope.is_namespace = true;
    }
    scopes_.push_back(std::move(scope));
    declaration_ = brace + 1;
  }

  /// The index of the bracket that closes the one at `open`.
  std::size_t closing(std::size_t open) const {
    int depth = 0;
    for (std::size_t i = open; i < tokens_.size(); ++i) {
      const std::string_view t = tokens_[i].text;
      if (t == "(" || t == "[" || t == "{") ++depth;
      if ((t == ")" || t == "]" || t == "}") && --depth == 0) return i;
    }
    return tokens_.size();
  }

  /// The declaration holding `__global__` at `at`; returns the index of its last token before the parameter list.
  std::size_t kernel(std::size_t at) {
    const bool is_template = text_at(declaration_) == "template";
    const bool primary = is_template && text_at(declaration_ + 1) == "<";
    std::string bound = "0", name;
    std::size_t i = declaration_;
    if (primary) {  // skip the template parameters: their brackets may hold anything but a kernel
      int depth = 0;
      for (++i; i < at; ++i) {
        if (text_at(i) == "<") ++depth;
        if (text_at(i) == ">" && --depth == 0) break;
      }
    }
    for (; i < tokens_.size(); ++i) {
      const std::string_view t = text_at(i);
      if (t == "__launch_bounds__" || t == "__attribute__" || t == "alignas") {
        const std::size_t end = closing(i + 1);
        if (t == "__launch_bounds__") {
          std::size_t stop = end;
          for (std::size_t k = i + 2; k < end; ++k) {
            if (text_at(k) == "(")
              k = closing(k);
            else if (text_at(k) == ",")
              stop = std::min(stop, k);
          }
          if (stop > i + 2 && stop < tokens_.size())
            bound = text_.substr(tokens_[i + 2].at, tokens_[stop].at - tokens_[i + 2].at);
        }
        i = end;
      } else if (t == "(" || t == ";" || t == "{") {
        break;
      } else if (t == "<" && i > at) {
        int depth = 0;
        for (; i < tokens_.size(); ++i) {
          name += text_at(i);
          if (i + 1 < tokens_.size() && tokens_[i].kind == Token::Kind::Identifier &&
              tokens_[i + 1].kind == Token::Kind::Identifier)
            name += ' ';
          if (text_at(i) == "<") ++depth;
          if (text_at(i) == ">" && --depth == 0) break;
        }
      } else if (tokens_[i].kind == Token::Kind::Identifier) {
        name = text_at(i - 1) == "::" && i > at + 1 ? name + std::string(t) : std::string(t);
      } else if (t == "::") {
        name += t;
      }
    }
    if (text_at(i) == "(") {
      std::string qualified;
      for (const Scope& scope : scopes_) qualified += scope.name;
      qualified += name;
      if (primary) {
        const bool number = std::all_of(bound.begin(), bound.end(),
                                        [](unsigned char c) { return std::isdigit(c) != 0 || std::isspace(c) != 0; });
        if (number) result_.template_bounds[qualified] = bound;
      } else if (seen_.insert(qualified).second) {
        result_.kernels.push_back({qualified, bound});
      }
    }
    return i == 0 ? at : i - 1;
  }

  /// extern __shared__ [attributes] T name[]; inside a function.
  std::size_t dynamic_shared(std::size_t at) {
    std::size_t open = at + 2;
    while (open < tokens_.size() && text_at(open) != "[" && text_at(open) != ";") {
      if (text_at(open) == "(") open = closing(open);
      ++open;
    }
    if (text_at(open) != "[" || text_at(open + 1) != "]" || text_at(open + 2) != ";") return at;
    std::string type;
    for (std::size_t i = at + 2; i + 1 < open; ++i) {
      const std::string_view t = text_at(i);
      if (t == "__attribute__" || t == "alignas" || t == "__align__") {
        i = closing(i + 1);
        continue;
      }
      type += t;
      type += ' ';
    }
    const std::string name(text_at(open - 1));
    result_.text += text_.substr(copied_, tokens_[at].at - copied_);
    result_.text += type + "* const " + name + " = reinterpret_cast<" + type + "*>(::cpuhip::current->dynamic_shared);";
    copied_ = tokens_[open + 2].at + 1;
    declaration_ = open + 3;
    return open + 2;
  }

  std::string_view text_;
  std::vector<Token> tokens_;
  std::vector<Scope> scopes_;
  std::size_t declaration_ = 0;  // the first token of the declaration being read
  std::size_t copied_ = 0;       // how much of the text is in the result
  std::set<std::string> seen_;
  ScannedSource result_;
};

}  // namespace

ScannedSource scan_source(std::string_view preprocessed) { return Scanner(preprocessed).run(); }

}  // namespace cpuhip
