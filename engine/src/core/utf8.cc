#include "heed/utf8.h"

namespace heed {

std::pair<char32_t, std::size_t> DecodeCharacter(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || bytes.size() < length) return {0, 0};
  char32_t character = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {0, 0};
    character = character << 6 | (byte(i) & 0x3fu);
  }
  const bool overlong = (length == 3 && character < 0x800) || (length == 4 && character < 0x10000);
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  if (overlong || surrogate || character > 0x10ffff) return {0, 0};
  return {character, length};
}

DecodedUtf8 DecodeUtf8(std::string_view bytes) {
  DecodedUtf8 text;
  text.characters.reserve(bytes.size());
  while (text.read < bytes.size()) {
    const auto [character, length] = DecodeCharacter(bytes.substr(text.read));
    if (length == 0) break;
    text.characters.push_back(character);
    text.read += length;
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

}  // namespace heed
