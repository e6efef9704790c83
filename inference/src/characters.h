// The characters that a model of a text knows, and its tokens.
#ifndef HEED_INFERENCE_SRC_CHARACTERS_H_
#define HEED_INFERENCE_SRC_CHARACTERS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config_reader.h"

namespace heed {

// The file's "vocabulary", ascending. Throws FileError.
std::u32string ReadCharacters(const ConfigReader& config);
// The tokens of a text in UTF-8. Throws InvalidArgument that names the argument and the first character which is not among
// them.
std::vector<int32_t> EncodeTokens(const std::u32string& characters, std::string_view text,
                                  const std::string& argument = "text");
// Throws InvalidArgument for a token that is none of theirs.
std::string DecodeTokens(const std::u32string& characters, std::span<const int32_t> tokens);
// The tokens of a prompt. Throws InvalidArgument as EncodeTokens does, where it is empty, and where `added` is below 0.
std::vector<int32_t> EncodePrompt(const std::u32string& characters, std::string_view prompt, int64_t added);

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_CHARACTERS_H_
