// Texts between bytes and characters.
#ifndef HEED_UTF8_H_
#define HEED_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace heed {

// The character at the front of `bytes`, which are not empty, and its length in bytes; length 0 where there is no valid one.
std::pair<char32_t, std::size_t> DecodeCharacter(std::string_view bytes);

// Strict UTF-8 (Unicode 15, table 3-7): at an overlong form, a surrogate, a code point beyond U+10FFFF or a truncated character
// decoding ends. `read` is the number of bytes that were decoded, all of them where the text is valid.
struct DecodedUtf8 {
  std::u32string characters;
  std::size_t read = 0;
};
DecodedUtf8 DecodeUtf8(std::string_view bytes);

std::string EncodeUtf8(std::u32string_view characters);

}  // namespace heed

#endif  // HEED_UTF8_H_
