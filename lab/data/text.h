// A text as a sequence of Unicode characters, and their numbers.
#ifndef HEED_LAB_DATA_TEXT_H_
#define HEED_LAB_DATA_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/utf8.h"

namespace heed::lab {

struct Text {
  std::string name;           // where it came from, for messages
  std::u32string characters;  // Unicode code points
  std::string path = {};      // as ReadText was given it; empty where it was read otherwise
};

// The UTF-8 file at `path`, a regular file as lab/report/file.h reads it; standard input, of any kind, where path is "-".
// A byte order mark at the front is left out, and lines end in LF: CR and CRLF are read as one.
// Throws FileError that names the file and what is wrong: it cannot be read, is too large, is empty, or is not UTF-8 (with the
// byte offset); InvalidArgument where its name is that of a table, .csv, .tsv or .npy.
Text ReadText(const std::string& path);

// Strict UTF-8 (Unicode 15, table 3-7): overlong forms, surrogates, code points beyond U+10FFFF and truncated characters are
// refused with a FileError that names the byte offset.
Text DecodeText(std::string name, std::string_view utf8);

// The text of the file, "-" for standard input; of no file the docstrings of CPython's library, which is then said on stderr
// unless `quiet`: 1.6 million characters of English that every CPython has, as python3 reads them from its sources, without
// those of tests and of installed packages. Their name says of which version. Throws FileError, also when there is no python3
// or its library has no sources.
Text TextOrDefault(const std::string& path, bool quiet);

// The characters that a model knows, in the order of their code points; a token is the index of its character.
class Vocabulary {
 public:
  Vocabulary() = default;
  // Every character of the text, once. Any order and repetition is accepted.
  explicit Vocabulary(std::u32string_view characters);

  int64_t size() const { return static_cast<int64_t>(characters_.size()); }
  const std::u32string& characters() const { return characters_; }

  // Throws InvalidArgument that names the text, the first unknown character and where it stands.
  std::vector<int32_t> Encode(const Text& text) const;

 private:
  std::u32string characters_;  // sorted, unique
};

// Tokens that follow one another in the text are a passage; a window lies within one.
struct Passages {
  std::vector<int32_t> tokens;  // one passage after another
  std::vector<int64_t> ends;    // of each passage among the tokens, rising

  Passages() = default;
  explicit Passages(std::vector<int32_t> passage) : tokens(std::move(passage)), ends{static_cast<int64_t>(tokens.size())} {}

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
};

enum class Objective {
  kCausal,  // the next character from those before it
  kMasked,  // the characters behind mask symbols, from both sides
};

// "causal", "masked"; throws InvalidArgument that lists them.
Objective ParseObjective(const std::string& name);
std::string ToString(Objective objective);

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_TEXT_H_
