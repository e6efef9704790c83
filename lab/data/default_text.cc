#include "lab/data/default_text.h"

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "heed/error.h"

namespace heed::lab {
namespace {

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

}  // namespace

Text TextOrDefault(const std::string& path, bool quiet) {
  if (!path.empty()) return ReadText(path);
  Text text = DefaultText();
  if (!quiet) std::fprintf(stderr, "no TEXT given: reading the %s\n", text.name.c_str());
  return text;
}

}  // namespace heed::lab
