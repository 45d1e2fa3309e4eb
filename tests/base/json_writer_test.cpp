// JSON out: nesting, escapes, numbers that have no JSON form.
#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <limits>

namespace splitwave {
namespace {

TEST(JsonWriter, NestsObjectsAndArraysWithCommasBetweenItems) {
  JsonWriter w;
  w.begin_object().field("a", 1).key("b").begin_array().value(2).value("x").end_array();
  w.key("c").begin_object().end_object().end_object();
  EXPECT_EQ(w.str(), "{\n  \"a\": 1,\n  \"b\": [\n    2,\n    \"x\"\n  ],\n  \"c\": {}\n}\n");
}

TEST(JsonWriter, EscapesQuotesBackslashesAndControlCharacters) {
  EXPECT_EQ(json_escape("a\"b\\c\n\x01"), "a\\\"b\\\\c\\n\\u0001");
}

TEST(JsonWriter, WritesNullForNumbersThatJsonCannotHold) {
  JsonWriter w;
  w.begin_array().value(std::numeric_limits<double>::quiet_NaN());
  w.value(std::numeric_limits<double>::infinity()).value(0.1).end_array();
  EXPECT_EQ(w.str(), "[\n  null,\n  null,\n  0.1\n]\n");
}

TEST(JsonWriter, KeepsARowOnOneLineAmongRowsAndValues) {
  JsonWriter w;
  w.begin_array().begin_row().value(1).value(2.5).end_array().begin_row().end_array().raw("{}");
  EXPECT_EQ(w.end_array().str(), "[\n  [1, 2.5],\n  [],\n  {}\n]\n");
}

TEST(JsonWriterDeathTest, AbortsOnAValueWithoutAKeyInAnObject) {
  JsonWriter w;
  w.begin_object();
  EXPECT_DEATH(w.value(1), "needs a key");
}

}  // namespace
}  // namespace splitwave
