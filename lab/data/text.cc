#include "lab/data/text.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "heed/error.h"
#include "heed/utf8.h"
#include "lab/report/file.h"
#include "lab/report/printable.h"

namespace heed::lab {
namespace {

void RefuseTable(const std::string& path) {
  std::string name = path;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  const std::string extension = std::filesystem::path(name).extension().string();
  if (extension != ".csv" && extension != ".tsv" && extension != ".npy") return;
  throw InvalidArgument("TEXT: '" + Printable(path) +
                        "' is named as a table of numbers, not as a text; heed study takes CSV and NPY with "
                        "--target or --goal, and any command takes it as a text from standard input, as -");
}

// LF, whichever system wrote the text.
void UnifyLineEnds(std::u32string& characters) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < characters.size(); ++i) {
    const bool pair = characters[i] == U'\r' && i + 1 < characters.size() && characters[i + 1] == U'\n';
    if (!pair) characters[kept++] = characters[i] == U'\r' ? U'\n' : characters[i];
  }
  characters.resize(kept);
}

}  // namespace

Text ReadText(const std::string& path) {
  RefuseTable(path);
  Text text = DecodeText(NameOfInput(path), WithoutByteOrderMark(ReadInput(path)));
  UnifyLineEnds(text.characters);
  text.path = path;
  return text;
}

Text DecodeText(std::string name, std::string_view utf8) {
  if (utf8.empty()) throw FileError("text '" + name + "' is empty");
  DecodedUtf8 decoded = DecodeUtf8(utf8);
  if (decoded.read < utf8.size()) {
    throw FileError("text '" + name + "'" + NotUtf8(utf8.substr(decoded.read), static_cast<int64_t>(decoded.read)));
  }
  return {.name = std::move(name), .characters = std::move(decoded.characters)};
}

std::string EncodeUtf8(std::u32string_view characters) { return heed::EncodeUtf8(characters); }

}  // namespace heed::lab
