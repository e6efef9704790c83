// Texts of pages and findings, which stand in files of their own beside the code that tells them.
#ifndef HEED_LAB_REPORT_PROSE_H_
#define HEED_LAB_REPORT_PROSE_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace heed::lab {

// A file of texts, each a name on a line of its own and indented lines below it, which are joined by spaces:
//   worth open
//     Whether a model is worth training is open: {loss} for the best,
//     {leader}, after {given}.
// In braces stand the names of what is filled in. The build puts the file into the program (heed_embed_text).
class Prose {
 public:
  explicit Prose(std::string_view file);

  bool has(const std::string& name) const { return texts_.contains(name); }

  //   using namespace fmt::literals;
  //   tell("worth open", "loss"_a = loss, "leader"_a = leader, "given"_a = given)
  // Throws std::out_of_range for a name that the file has not, fmt::format_error where something to fill in is missing.
  template <class... Arguments>
  std::string operator()(const std::string& name, Arguments&&... arguments) const {
    return fmt::format(fmt::runtime(texts_.at(name)),
                       std::forward<Arguments>(arguments)...);  // fmt knows rvalues alone by name
  }

 private:
  std::map<std::string, std::string> texts_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_PROSE_H_
