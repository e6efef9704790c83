// A text as a sequence of Unicode characters.
#ifndef HEED_LAB_DATA_TEXT_H_
#define HEED_LAB_DATA_TEXT_H_

#include <string>
#include <string_view>

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

std::string EncodeUtf8(std::u32string_view characters);

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_TEXT_H_
