#include "host/info/json.h"

#include <catch2/catch.hpp>

namespace gshmem::info {

TEST_CASE("json_escapes_what_rfc_8259_asks_for") {
  CHECK(json_quoted("plain") == "\"plain\"");
  CHECK(json_quoted("a\"b\\c") == "\"a\\\"b\\\\c\"");
  CHECK(json_quoted("\n\t\x01") == "\"\\u000a\\u0009\\u0001\"");
  CHECK(json_quoted(std::string_view("\0", 1)) == "\"\\u0000\"");
  CHECK(json_quoted("/\x7f") == "\"/\x7f\"");
}

TEST_CASE("json_keeps_utf8_and_replaces_what_is_none") {
  CHECK(json_quoted("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") ==
        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
  CHECK(json_quoted("\xff") == "\"\\ufffd\"");
  CHECK(json_quoted("a\x80z") == "\"a\\ufffdz\"");
  CHECK(json_quoted("\xc0\xaf") == "\"\\ufffd\\ufffd\"");                        // overlong
  CHECK(json_quoted("\xe0\x80\x80") == "\"\\ufffd\\ufffd\\ufffd\"");             // overlong
  CHECK(json_quoted("\xed\xa0\x80") == "\"\\ufffd\\ufffd\\ufffd\"");             // surrogate
  CHECK(json_quoted("\xf4\x90\x80\x80") == "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");  // above U+10FFFF
  CHECK(json_quoted("\xe2\x82") == "\"\\ufffd\\ufffd\"");                        // cut short
}

TEST_CASE("json_nests_with_commas_between_members_only") {
  JsonWriter json;
  json.begin_object();
  json.member("text", "x");
  json.key("list");
  json.begin_array();
  json.number(1);
  json.number(std::uint64_t{18446744073709551615u});
  json.boolean(false);
  json.null();
  json.begin_object();
  json.end_object();
  json.end_array();
  json.key("empty");
  json.begin_array();
  json.end_array();
  json.end_object();
  CHECK(json.text() ==
        "{\n"
        "  \"text\": \"x\",\n"
        "  \"list\": [\n"
        "    1,\n"
        "    18446744073709551615,\n"
        "    false,\n"
        "    null,\n"
        "    {}\n"
        "  ],\n"
        "  \"empty\": []\n"
        "}\n");
}

}  // namespace gshmem::info
