#include "lab/report/json.h"

#include <cmath>

#include <gtest/gtest.h>

namespace heed::lab {
namespace {

TEST(JsonTest, BytesThatAreNotUtf8BecomeReplacementCharacters) {
  const nlohmann::ordered_json json = {{"text", "caf\xe9.txt"}, {"loss", NAN}, {"name", "caf\u00e9"}};
  const std::string text = JsonText(json);
  EXPECT_EQ(text, "{\"text\":\"caf\ufffd.txt\",\"loss\":null,\"name\":\"caf\u00e9\"}");
  EXPECT_EQ(nlohmann::ordered_json::parse(JsonText(json, 2)).at("text"), "caf\ufffd.txt");
}

}  // namespace
}  // namespace heed::lab
