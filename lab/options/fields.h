// One description of a command's options. Their flags, their checks, their settings in JSON, which are hostile until checked,
// and the command that is printed beside a figure all come from it.
#ifndef HEED_LAB_OPTIONS_FIELDS_H_
#define HEED_LAB_OPTIONS_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/data/text.h"

namespace heed::lab {

struct Field {
  // Where a value comes from. kCommon: from a flag that every command has, as --seed. kMachine: likewise, and the numbers that
  // are measured do not depend on it, as --threads.
  enum class Source { kOwn, kCommon, kMachine };
  using Value = std::variant<bool*, int64_t*, uint64_t*, int*, double*, std::string*, Objective*, std::vector<int64_t>*,
                             std::vector<double>*, std::vector<std::string>*>;

  std::string name;                     // in settings; the flag is --name with '-' for '_'
  Value value;                          // of one struct of options, which must outlive the field
  std::string text = {};                // for --help
  std::vector<std::string> known = {};  // of names: those to choose among
  bool empty = false;                   // of lists: whether "none" is one
  int64_t low = 0, high = 0;            // of whole numbers: the range, both ends of which are allowed
  double above = 0, below = 0;          // of other numbers: what they lie between, ends left out,
  bool from = false;                    // but for `above` itself where this is set
  bool time = false;                    // of numbers: of seconds, which the flag takes as 90s, 15m or 2h, too
  Source source = Source::kOwn;
  // Tells which runs there are or how many steps they have; what a run of so many steps measures does not depend on it.
  bool chooses = false;
  std::string group = {};             // its heading in --help
  std::vector<std::string> old = {};  // flags of earlier versions that are taken for it; "!name" turns a switch off

  std::string Flag() const;
  // As it is given on the command line: the shortest text that reads back as the same number, lists with commas or "none".
  std::string Text() const;
  // Throws InvalidArgument that names the field and what it may be.
  void Check() const;
};

// Whole numbers from low to high, names of those known, which the help lists; one or a list of them.
Field Whole(std::string name, Field::Value value, int64_t low, int64_t high, std::string text);
Field Names(std::string name, Field::Value value, std::vector<std::string> known, const std::string& text);
// The same where "none" is a list.
Field OrNone(Field field);
// A flag alone: true where it is given, and false as --no-NAME where it is true by default.
Field Switch(std::string name, bool& value, std::string text);
// Between above and below; one or a list of them.
Field Number(std::string name, double& value, double above, double below, std::string text);
// From `low`, which is allowed.
Field NumberFrom(std::string name, double& value, double low, double below, std::string text);
Field Numbers(std::string name, std::vector<double>& values, double above, double below, std::string text);
Field Choosing(Field field);
Field Time(Field field);
// All of them below one heading of --help.
std::vector<Field> Grouped(std::vector<Field> fields, const std::string& group);
// The models of an experiment: encoders, schemes of attention, runs of each.
Field Encoders(std::vector<std::string>& encoders);
Field Schemes(std::vector<std::string>& positions);
Field Seeds(int64_t& seeds);
Field Seed(uint64_t& seed);
Field SideBySide(int& threads);  // how many runs go on at a time

// A struct of options describes itself by
//   std::vector<Field> FieldsOf(Options& options);
using Fields = std::vector<Field>;

// Throws InvalidArgument that names the first field whose value is not allowed.
void Check(const Fields& fields);
// By name, but for the machine's.
nlohmann::ordered_json SettingsOf(const Fields& fields);
// The same without what chooses among runs and without what flags of every command give: what all runs of an experiment depend
// on.
nlohmann::ordered_json RunSettingsOf(const Fields& fields);
// What to type for the same numbers, with every word quoted where a shell needs it:
//   heed COMMAND [WORDS] [--budget BUDGET] [flags where `fields` and those of the budget's own options differ] --out FOLDER
// where `words` are quoted already, and an empty budget is none: the others are then the defaults.
std::string CommandLine(const std::string& command, const std::string& words, const std::string& budget, const Fields& fields,
                        const Fields& of_budget, const std::filesystem::path& folder);

// The encoders and positional schemes of heed/nn.
std::vector<std::string> EncoderNames();
std::vector<std::string> PositionSchemeNames();

// Throws InvalidArgument that names the option: where nothing is chosen, a name is unknown (it lists those known), or a name is
// given twice.
void RequireKnown(const char* option, const std::vector<std::string>& chosen, const std::vector<std::string>& known);

// Throws InvalidArgument that names the option, the value and the range, both ends of which are allowed.
void RequireRange(const char* option, int64_t value, int64_t low, int64_t high);

// Throws InvalidArgument that names the heads where they are not in 1..width, and the width where it is odd, where the heads do
// not divide it, or where one of the schemes rotates pairs of a head's features and their number is odd.
void RequireHeads(int64_t width, int64_t heads, const std::vector<std::string>& positions);

// Of a contest. Throw InvalidArgument that names the option: where the paces are neither none nor one a contender, and where
// the rates do not rise.
void RequirePace(const std::vector<double>& step_seconds, std::size_t contenders);
void RequireRising(const std::vector<double>& rates);

// What is wrong with a file's contents; who reads the file puts its name before it.
struct FieldError {
  std::string message;
};

// All throw FieldError. A file is one JSON object, in which at most 64 levels are nested.
nlohmann::ordered_json ParseSettings(const std::string& text);
const nlohmann::ordered_json& Member(const nlohmann::ordered_json& object, const char* name);
const nlohmann::ordered_json& ObjectIn(const nlohmann::ordered_json& object, const char* name);

// A member of exactly this type.
void ReadField(const nlohmann::ordered_json& object, const char* name, Field::Value field);
template <class T>
void ReadField(const nlohmann::ordered_json& object, const char* name, T& field) {
  ReadField(object, name, Field::Value(&field));
}

// The fields by their names; one that is not there keeps its value where may_lack says that it may.
void ReadFields(const nlohmann::ordered_json& object, const Fields& fields,
                const std::function<bool(const std::string& name)>& may_lack = {});

}  // namespace heed::lab

#endif  // HEED_LAB_OPTIONS_FIELDS_H_
