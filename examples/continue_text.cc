// A model that `heed train` wrote, in a program without LibTorch: it opens the folder, reads a prompt and writes on.
//
//   example_continue_text FOLDER PROMPT CHARACTERS
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "heed/character_model.h"
#include "heed/error.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s FOLDER PROMPT CHARACTERS\n", argv[0]);
    return 2;
  }
  try {
    const heed::CharacterModel model(argv[1]);
    // Decoding keeps the keys and values of what was read, so that a further character costs one step.
    std::fputs(argv[2], stdout);
    model.Continue(argv[2], std::strtoll(argv[3], nullptr, 10), heed::ThreadPool::Default(), [](std::string_view character) {
      std::fwrite(character.data(), 1, character.size(), stdout);
      std::fflush(stdout);
    });
    std::putchar('\n');
  } catch (const heed::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
