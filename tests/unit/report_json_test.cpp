#include <gtest/gtest.h>

#include <cstdint>

#include "shim/report/json.h"

namespace graphpool {
namespace {

TEST(JsonWriter, puts_the_commas) {
  JsonWriter json;
  json.open_object();
  json.key("a").value(std::uint64_t{1});
  json.key("b").open_array().value(true).open_array().close_array().value(false).close_array();
  json.key("c").open_object().close_object();
  json.key("d").open_object().key("e").value("f").close_object();
  json.close_object();
  EXPECT_EQ(R"({"a":1,"b":[true,[],false],"c":{},"d":{"e":"f"}})", json.text());
}

TEST(JsonWriter, writes_numbers_whole) {
  JsonWriter json;
  json.open_array().value(UINT64_MAX).value(INT64_MIN).value(std::int64_t{7}).value(std::uint64_t{0}).close_array();
  EXPECT_EQ("[18446744073709551615,-9223372036854775808,7,0]", json.text());
}

TEST(JsonWriter, escapes_what_a_string_may_not_hold) {
  JsonWriter json;
  json.open_object().key("\"k\\").value("a\"b\\c\n\x1f\x7f/é").close_object();
  EXPECT_EQ("{\"\\\"k\\\\\":\"a\\\"b\\\\c\\u000a\\u001f\x7f/é\"}", json.text());
}

TEST(JsonWriter, replaces_what_is_no_utf_8) {
  const auto written = [](std::string_view text) {
    JsonWriter json;
    json.open_array().value(text).close_array();
    return json.text();
  };
  for (const char* const good : {"\u00e9", "\u20ac", "\ud7ff", "\ue000", "\U0001f600", "\U0010ffff"})
    EXPECT_EQ(std::string("[\"") + good + "\"]", written(good));
  EXPECT_EQ("[\"a\uFFFD\"]", written("a\xc3")) << "cut";
  EXPECT_EQ("[\"\uFFFD\uFFFD\"]", written("\xe2\x82")) << "cut";
  EXPECT_EQ("[\"\uFFFDb\"]", written("\x80\x62"));
  EXPECT_EQ("[\"\uFFFD\uFFFD\"]", written("\xc0\xaf")) << "too long for its character";
  EXPECT_EQ("[\"\uFFFD\uFFFD\uFFFD\"]", written("\xed\xa0\x80")) << "half of a pair";
  EXPECT_EQ("[\"\uFFFD\uFFFD\uFFFD\uFFFD\"]", written("\xf4\x90\x80\x80")) << "beyond the last";
}

}  // namespace
}  // namespace graphpool
