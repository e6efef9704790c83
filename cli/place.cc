#include "cli/place.h"

namespace heed::cli {

CLI::Option* AddName(CLI::App& command, const char* option, std::string& value, const std::string& text) {
  return command.add_option(option, value, text)->check([](const std::string& name) {
    return name.empty() ? std::string("it is empty; expected a name, or the option left out") : std::string();
  });
}

}  // namespace heed::cli
