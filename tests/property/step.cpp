#include "step.h"

#include <cstdlib>
#include <sstream>

namespace property {
namespace {

#define WORK "what dst first parts src src_first quarter value form"
struct Row {
  const char* name;
  std::vector<std::string> numbers;
};

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> found;
  for (std::string word; in >> word;) found.push_back(word);
  return found;
}

const std::vector<Row>& rows() {
  static const auto& table = *new std::vector<Row>{
#define STEP(name, numbers) {#name, words(numbers)},
#include "steps.def"
#undef STEP
  };
  return table;
}

constexpr std::size_t kWorkNumbers = 9;

}  // namespace

Work Step::work() const {
  const std::size_t at = rows()[static_cast<std::size_t>(kind)].numbers.size() - kWorkNumbers;
  Work work;
  std::int64_t* const fields[] = {&work.what,      &work.dst,     &work.first, &work.parts, &work.src,
                                  &work.src_first, &work.quarter, &work.value, &work.form};
  for (std::size_t i = 0; i < kWorkNumbers; ++i) *fields[i] = number[at + i];
  return work;
}

Step make(Kind kind, int thread, std::vector<std::int64_t> numbers) {
  Step step;
  step.kind = kind;
  step.thread = thread;
  for (std::size_t i = 0; i < numbers.size(); ++i) step.number[i] = numbers[i];
  return step;
}

Step make(Kind kind, int thread, std::vector<std::int64_t> numbers, const Work& w) {
  for (const std::int64_t field : {w.what, w.dst, w.first, w.parts, w.src, w.src_first, w.quarter, w.value, w.form})
    numbers.push_back(field);
  return make(kind, thread, std::move(numbers));
}

std::string text_of(const Step& step) {
  const Row& row = rows()[static_cast<std::size_t>(step.kind)];
  std::string text = row.name;
  for (std::size_t i = 0; i < row.numbers.size(); ++i)
    text += ' ' + row.numbers[i] + '=' + std::to_string(step.number[i]);
  return text + " thread=" + std::to_string(step.thread);
}

bool parse(const std::string& line, Step* step) {
  const std::vector<std::string> parts = words(line);
  if (parts.empty()) return false;
  for (std::size_t kind = 0; kind < rows().size(); ++kind) {
    if (parts[0] != rows()[kind].name) continue;
    *step = {};
    step->kind = static_cast<Kind>(kind);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const std::size_t equals = parts[i].find('=');
      if (equals == std::string::npos) continue;
      const std::string name = parts[i].substr(0, equals);
      const std::int64_t value = std::strtoll(parts[i].c_str() + equals + 1, nullptr, 10);
      if (name == "thread") step->thread = static_cast<int>(value);
      for (std::size_t k = 0; k < rows()[kind].numbers.size(); ++k)
        if (rows()[kind].numbers[k] == name) step->number[k] = value;
    }
    return true;
  }
  return false;
}

}  // namespace property
