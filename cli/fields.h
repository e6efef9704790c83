// Flags from the description of a command's options (lab/options/fields.h).
#ifndef HEED_CLI_FIELDS_H_
#define HEED_CLI_FIELDS_H_

#include <any>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/command.h"
#include "lab/options/fields.h"

namespace heed::cli {

// The flags of a command that stand for options, and what was given of them. Its address must stay as it is.
class FieldFlags {
 public:
  // Where the values come from that are not given: from a budget, or from the fields, whose values --help then shows.
  enum class Of { kBudget, kCommand };
  FieldFlags(CLI::App& command, const lab::Fields& fields, Of of = Of::kBudget) : of_(of) { Add(command, fields); }
  FieldFlags(const FieldFlags&) = delete;
  FieldFlags& operator=(const FieldFlags&) = delete;

  bool Given(const std::string& name) const { return given_.contains(name); }
  // Flags of further options; those whose name has one already share it.
  void Add(CLI::App& command, const lab::Fields& fields);
  // Puts what was given in the place of the fields' own values. Throws InvalidArgument that names the flag: its value cannot be
  // read, or none of the fields has its name; `what` is then said to have no such option.
  void Apply(const lab::Fields& fields, const char* what) const;

 private:
  CLI::Option* AddFlag(CLI::App& command, const lab::Field& field, const std::string& flag,
                       const std::function<void()>& notice);

  Of of_;
  std::set<std::string> names_;            // of all fields
  std::map<std::string, std::any> given_;  // by the field's name: a number, or the word that stands for anything else
};

// The options of a budget, what was given instead, and what every command gives. `what`: see Apply.
template <class Options>
Options OptionsOf(Options options, const FieldFlags& flags, const char* what, const Context& context) {
  flags.Apply(FieldsOf(options), what);
  options.seed = context.seed;
  options.threads = ThreadsOf(context);
  options.quiet = context.quiet;
  return options;
}

}  // namespace heed::cli

#endif  // HEED_CLI_FIELDS_H_
