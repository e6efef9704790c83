#include "lab/data/text.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <utility>

#include "heed/error.h"
#include "heed/nn/input_file.h"
#include "lab/report/file.h"

namespace heed::lab {
namespace {

// The character at the front of `bytes` and its length in bytes; length 0 where there is no valid character.
std::pair<char32_t, int> DecodeOne(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const int length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || bytes.size() < static_cast<std::size_t>(length)) return {0, 0};
  char32_t character = lead & (0xffu >> (length + 1));
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {0, 0};
    character = character << 6 | (byte(i) & 0x3fu);
  }
  const bool overlong = (length == 3 && character < 0x800) || (length == 4 && character < 0x10000);
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  if (overlong || surrogate || character > 0x10ffff) return {0, 0};
  return {character, length};
}

void RefuseTable(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (extension != ".csv" && extension != ".tsv" && extension != ".npy") return;
  throw InvalidArgument("TEXT: '" + path +
                        "' is named as a table of numbers, not as a text; heed study takes it with --target or --goal, and "
                        "any command takes it as a text from standard input, as -");
}

}  // namespace

Text ReadText(const std::string& path) {
  RefuseTable(path);
  Text text =
      path == "-" ? DecodeText("standard input", nn::ReadStandardInput(MostDataBytes())) : DecodeText(path, ReadFile(path));
  text.path = path;
  return text;
}

Text DecodeText(std::string name, std::string_view utf8) {
  if (utf8.empty()) throw FileError("text '" + name + "' is empty");
  Text text{.name = std::move(name), .characters = {}};
  text.characters.reserve(utf8.size());
  for (std::size_t at = 0; at < utf8.size();) {
    const auto [character, length] = DecodeOne(utf8.substr(at));
    if (length == 0) {
      throw FileError("text '" + text.name + "' is not UTF-8: no valid character begins at byte " + std::to_string(at));
    }
    text.characters.push_back(character);
    at += length;
  }
  return text;
}

std::string EncodeUtf8(std::u32string_view characters) {
  std::string bytes;
  bytes.reserve(characters.size());
  const auto tail = [&](char32_t c, int shift) { bytes.push_back(static_cast<char>(0x80 | ((c >> shift) & 0x3f))); };
  for (const char32_t c : characters) {
    if (c < 0x80) {
      bytes.push_back(static_cast<char>(c));
    } else if (c < 0x800) {
      bytes.push_back(static_cast<char>(0xc0 | (c >> 6)));
      tail(c, 0);
    } else if (c < 0x10000) {
      bytes.push_back(static_cast<char>(0xe0 | (c >> 12)));
      tail(c, 6);
      tail(c, 0);
    } else {
      bytes.push_back(static_cast<char>(0xf0 | (c >> 18)));
      tail(c, 12);
      tail(c, 6);
      tail(c, 0);
    }
  }
  return bytes;
}

}  // namespace heed::lab
