#include "cli/fields.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <type_traits>
#include <variant>

#include <fmt/core.h>

#include "heed/error.h"

namespace heed::cli {
namespace {

[[noreturn]] void RefuseLengths(const lab::Field& field, const std::string& text) {
  throw InvalidArgument(field.Flag() +
                        ": expected FIRST:LAST (doubling, as 16:1024) or numbers with commas (as 10,100,1000), got '" + text +
                        "'");
}

int64_t ParseLength(const lab::Field& field, std::string_view part, const std::string& text) {
  int64_t length = 0;
  const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), length);
  if (error != std::errc() || rest != part.data() + part.size() || length < 1) RefuseLengths(field, text);
  return length;
}

// Calls visit(part) for what lies between commas.
template <class Visit>
void ForEachPart(std::string_view text, const Visit& visit) {
  while (true) {
    const std::string_view part = text.substr(0, text.find(','));
    visit(part);
    if (part.size() == text.size()) return;
    text.remove_prefix(part.size() + 1);
  }
}

// CLI11 reads single numbers. Lists are one word with commas, so what follows is never taken for one of them.
template <class T>
using Word = std::conditional_t<std::is_arithmetic_v<T>, T, std::string>;

// "16:1024" as 16, 32, ... up to 1024, "10,100" as it stands, both mixed: sorted, each number once.
void Take(const lab::Field& field, const std::string& word, std::vector<int64_t>& lengths) {
  lengths.clear();
  if (field.empty && word == "none") return;
  ForEachPart(word, [&](std::string_view part) {
    const std::size_t colon = part.find(':');
    const int64_t first = ParseLength(field, part.substr(0, colon), word);
    const int64_t last = colon == std::string_view::npos ? first : ParseLength(field, part.substr(colon + 1), word);
    if (last < first) RefuseLengths(field, word);
    for (int64_t length = first;; length *= 2) {
      lengths.push_back(length);
      if (length > last / 2) break;
    }
  });
  std::ranges::sort(lengths);
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
}

// "0.003,0.006", in that order.
void Take(const lab::Field& field, const std::string& word, std::vector<double>& numbers) {
  numbers.clear();
  ForEachPart(word, [&](std::string_view part) {
    double number = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc() || rest != part.data() + part.size()) {
      throw InvalidArgument(field.Flag() + ": expected numbers with commas, as 0.003,0.006, got '" + word + "'");
    }
    numbers.push_back(number);
  });
}

// "gru,lstm" as names; "all" as those that the field knows, "none" as an empty list where it takes one.
void Take(const lab::Field& field, const std::string& word, std::vector<std::string>& names) {
  names.clear();
  // A field that knows a name "none" means that one.
  const bool known = std::ranges::find(field.known, word) != field.known.end();
  if (!known && word == "none" && field.empty) return;
  if (!known && word == "all") {
    names = field.known;
  } else {
    ForEachPart(word, [&](std::string_view part) { names.emplace_back(part); });
  }
}

void Take(const lab::Field&, const std::string& word, lab::Objective& value) { value = lab::ParseObjective(word); }
template <class T>
void Take(const lab::Field&, const T& word, T& value) {
  value = word;
}

// What --help shows.
std::string DefaultOf(const lab::Field& field) {
  const auto* const* names = std::get_if<std::vector<std::string>*>(&field.value);
  return names != nullptr && **names == field.known ? "all" : field.Text();
}

}  // namespace

CLI::Option* FieldFlags::AddFlag(CLI::App& command, const lab::Field& field, const std::string& flag,
                                 const std::function<void()>& notice) {
  const auto add = [&]<class T>(const T* place) {
    const auto keep = [this, notice, name = field.name](const Word<T>& word) {
      if (notice) notice();
      given_[name] = word;
    };
    if constexpr (std::is_same_v<T, bool>) {
      const std::string both = *place ? flag + ",!--no-" + flag.substr(2) : flag;
      return command
          .add_flag_function(
              both, [keep](int64_t count) { keep(count > 0); }, field.text)
          ->check(CLI::IsMember({"true", "false"}));
    } else {
      CLI::Option* const option = command.add_option_function<Word<T>>(flag, keep, field.text);
      if (field.time) option->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"m", 60}, {"h", 3600}}));
      return option;
    }
  };
  return std::visit(add, field.value);
}

void FieldFlags::Add(CLI::App& command, const lab::Fields& fields) {
  for (const lab::Field& field : fields) {
    if (field.source != lab::Field::Source::kOwn || !names_.insert(field.name).second) continue;
    CLI::Option* option = AddFlag(command, field, field.Flag(), {});
    if (of_ == Of::kBudget) option->group("Instead of the budget's");
    if (!field.group.empty()) option->group(field.group);
    const bool told = field.text.find("default: ") != std::string::npos || std::holds_alternative<bool*>(field.value);
    if (of_ == Of::kCommand && !told) option->default_str(DefaultOf(field));
    for (const std::string& old : field.old) {
      const bool off = old.front() == '!';
      const std::string now = off ? field.Flag() + "=false" : field.Flag(), name = old.substr(off ? 1 : 0);
      const auto notice = [name, now] { fmt::print(stderr, "heed: --{} is now {}\n", name, now); };
      AddFlag(command, field, (off ? "!--" : "--") + name, notice)->group("");
    }
  }
}

void FieldFlags::Apply(const lab::Fields& fields, const char* what) const {
  const auto apply = []<class T>(const lab::Field& field, const std::any& word, T* place) {
    Take(field, std::any_cast<const Word<T>&>(word), *place);
  };
  std::set<std::string> taken;
  for (const lab::Field& field : fields) {
    const auto found = given_.find(field.name);
    if (found == given_.end()) continue;
    std::visit([&](auto* place) { apply(field, found->second, place); }, field.value);
    taken.insert(field.name);
  }
  for (const auto& [name, word] : given_) {
    if (!taken.contains(name)) throw InvalidArgument(name + ": " + what + " has no such option");
  }
}

}  // namespace heed::cli
