// Converts between UTF-8 bytes and characters.
#ifndef HEED_UTF8_H_
#define HEED_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace heed {

// The first character of `bytes`, which must not be empty, and its length in bytes; length 0 if it is not valid UTF-8.
std::pair<char32_t, std::size_t> DecodeCharacter(std::string_view bytes);

// Decodes strict UTF-8 (Unicode 15, table 3-7) up to the first overlong form, surrogate, code point beyond U+10FFFF or
// truncated character. `read` is the number of decoded bytes, all of them if the text is valid.
struct DecodedUtf8 {
  std::u32string characters;
  std::size_t read = 0;
};
DecodedUtf8 DecodeUtf8(std::string_view bytes);

std::string EncodeUtf8(std::u32string_view characters);

}  // namespace heed

#endif  // HEED_UTF8_H_
