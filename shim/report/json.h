// json.h: writes JSON (RFC 8259) into a string. Values are written in the order of the calls; the writer puts the
// commas.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace graphpool {

class JsonWriter {
 public:
  JsonWriter& open_object() { return open('{'); }
  JsonWriter& close_object() { return close('}'); }
  JsonWriter& open_array() { return open('['); }
  JsonWriter& close_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(std::uint64_t number);
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(bool truth);

  const std::string& text() const noexcept { return text_; }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void quote(std::string_view text);

  std::string text_;
  bool first_ = true;
};

}  // namespace graphpool
