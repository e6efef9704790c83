#include "lab/data/reference_text.h"

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "heed/error.h"

namespace heed::lab {
namespace {

// The version on the first line, then the topics in the order of their names.
constexpr char kCommand[] =
    "python3 -I -c '"
    "import platform, sys\n"
    "from pydoc_data.topics import topics\n"
    "text = \"\\n\\n\".join(topics[name] for name in sorted(topics))\n"
    "sys.stdout.buffer.write((platform.python_version() + \"\\n\" + text).encode())' 2>/dev/null";

}  // namespace

Text LanguageReference() {
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
        "text: none was given, and the language reference of CPython (pydoc_data/topics.py) cannot be read through "
        "python3; give a UTF-8 file");
  }
  return DecodeText("pydoc_data/topics.py of CPython " + bytes.substr(0, line), std::string_view(bytes).substr(line + 1));
}

Text TextOrReference(const std::string& path, bool quiet) {
  if (!path.empty()) return ReadText(path);
  Text text = LanguageReference();
  if (!quiet) std::fprintf(stderr, "no TEXT given: reading %s\n", text.name.c_str());
  return text;
}

}  // namespace heed::lab
