#include "lab/data/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "heed/error.h"
#include "heed/safetensors.h"
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

// The version on the first line, then the docstrings of each file in the order of their paths. idlelib and lib2to3 are not part
// of every version and every system.
constexpr char kCommand[] = R"(python3 -I -c '
import ast, os, platform, sys, sysconfig
left_out = {"dist-packages", "idlelib", "lib2to3", "site-packages", "test", "tests"}
documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
texts = []
for folder, folders, files in os.walk(sysconfig.get_path("stdlib")):
    folders[:] = sorted(set(folders) - left_out)
    for name in sorted(files):
        if name.endswith(".py"):
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    tree = ast.parse(file.read())
            except (OSError, SyntaxError, ValueError):
                continue
            found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented)]
            texts += [text for text in found if text]
if texts:
    whole = platform.python_version() + "\n" + "\n\n".join(texts)
    sys.stdout.buffer.write(whole.encode("utf-8", "replace"))
' 2>/dev/null)";

Text DefaultText() {
  // NOLINTNEXTLINE(bugprone-command-processor): the command is a constant
  std::FILE* output = popen(kCommand, "r");
  std::string bytes;
  if (output != nullptr) {
    std::array<char, 1 << 16> block;
    for (std::size_t read = 0; (read = std::fread(block.data(), 1, block.size(), output)) > 0;)
      bytes.append(block.data(), read);
    if (pclose(output) != 0) bytes.clear();
  }
  const std::size_t line = bytes.find('\n');
  if (line == std::string::npos || line + 1 == bytes.size()) {
    throw FileError(
        "text: none was given, and the docstrings of CPython's library cannot be read through python3; give a UTF-8 file");
  }
  return DecodeText("docstrings of CPython " + bytes.substr(0, line), std::string_view(bytes).substr(line + 1));
}

// A character for a message: printable ASCII in quotes, anything else as U+0041.
std::string DescribeCharacter(char32_t character) {
  if (character > 0x20 && character < 0x7f) return std::string("'") + static_cast<char>(character) + "'";
  char code[16];
  std::snprintf(code, sizeof code, "U+%04X", static_cast<unsigned>(character));
  return code;
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

Text TextOrDefault(const std::string& path, bool quiet) {
  if (!path.empty()) return ReadText(path);
  Text text = DefaultText();
  if (!quiet) std::fprintf(stderr, "no TEXT given: reading the %s\n", text.name.c_str());
  return text;
}

Vocabulary::Vocabulary(std::u32string_view characters) : characters_(characters) {
  std::sort(characters_.begin(), characters_.end());
  characters_.erase(std::unique(characters_.begin(), characters_.end()), characters_.end());
}

std::vector<int32_t> Vocabulary::Encode(const Text& text) const {
  std::unordered_map<char32_t, int32_t> index;
  for (std::size_t i = 0; i < characters_.size(); ++i) index.emplace(characters_[i], static_cast<int32_t>(i));
  std::vector<int32_t> tokens;
  tokens.reserve(text.characters.size());
  for (const char32_t character : text.characters) {
    const auto found = index.find(character);
    if (found == index.end()) {
      throw InvalidArgument("text '" + text.name + "': character " + std::to_string(tokens.size()) + ", " +
                            DescribeCharacter(character) + ", is not among the " + std::to_string(size()) +
                            " characters that the model knows");
    }
    tokens.push_back(found->second);
  }
  return tokens;
}

Objective ParseObjective(const std::string& name) {
  if (name == "causal") return Objective::kCausal;
  if (name == "masked") return Objective::kMasked;
  throw InvalidArgument("objective: '" + ShownName(name) + "' is unknown; choose causal or masked");
}

std::string ToString(Objective objective) { return objective == Objective::kCausal ? "causal" : "masked"; }

}  // namespace heed::lab
