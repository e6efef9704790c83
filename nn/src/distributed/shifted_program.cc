#include "distributed/shifted_program.h"

#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace heed::nn::distributed {
namespace {

// How many words of an instruction are no earlier instructions.
int PlainWords(std::string_view name) {
  if (name == "constant" || name == "read") return 2;
  return name == "dot" ? 3 : 0;
}

int64_t FirstOf(const First& first, std::string_view name) {
  if (name == "batch") return first.batch;
  if (name == "head") return first.head;
  if (name == "query") return first.query;
  return name == "key" ? first.key : 0;
}

std::string Shifted(const std::string& text, const First& first) {
  std::string result;
  std::vector<std::size_t> places;  // of the given instructions
  std::size_t written = 0;
  const auto write = [&](const std::string& line) {
    if (written > 0) result += ';';
    result += line;
    ++written;
  };
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line, ';');) {
    std::istringstream words(line);
    std::string name, word, moved;
    words >> name;
    moved = name;
    for (int plain = PlainWords(name); words >> word; --plain) {
      moved += ' ';
      moved += plain > 0 ? word : std::to_string(places[std::stoul(word)]);
    }
    write(moved);
    if (const int64_t by = FirstOf(first, name); by != 0) {
      write("constant whole " + std::to_string(by));
      write("add " + std::to_string(written - 2) + " " + std::to_string(written - 1));
    }
    places.push_back(written - 1);
  }
  return result;
}

}  // namespace

void ShiftPrograms(const First& first, AttentionOptions& options) {
  if (options.score()) options.score_text(Shifted(options.score()->Text(), first));
  if (options.mask_program()) options.mask_text(Shifted(options.mask_program()->Text(), first));
}

}  // namespace heed::nn::distributed
