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

}  // namespace
}  // namespace graphpool
