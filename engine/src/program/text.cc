#include "program/code.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "core/refuse.h"
#include "heed/shown_name.h"

namespace heed::program {
namespace {

using enum Operation;

constexpr std::string_view kKinds[] = {"truth", "whole", "real"};

std::string NumberText(double number) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), number);
  return std::string(text, end.ptr);
}

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// One instruction, word by word.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text), words_(Split(text, ' ')) {}

  [[noreturn]] void Refuse(const char* expected) const {
    core::Refuse("program", "expected " + std::string(expected) + " in '" + ShownName(text_) + "'");
  }
  bool done() const { return next_ == words_.size(); }
  std::string_view Next(const char* expected) {
    if (done()) Refuse(expected);
    return words_[next_++];
  }
  template <class Number>
  Number NextNumber(const char* expected) {
    const std::string_view word = Next(expected);
    Number number{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size()) Refuse(expected);
    return number;
  }
  Kind NextKind() {
    const std::string_view word = Next("a kind");
    for (std::size_t kind = 0; kind < std::size(kKinds); ++kind)
      if (word == kKinds[kind]) return static_cast<Kind>(kind);
    Refuse("truth, whole or real");
  }
  // The rest: numbers of earlier instructions.
  std::vector<int> Operands(const std::vector<int>& places) {
    std::vector<int> operands;
    while (!done()) {
      const int operand = NextNumber<int>("the number of an earlier instruction");
      if (operand < 0 || operand >= static_cast<int>(places.size())) Refuse("the number of an earlier instruction");
      operands.push_back(places[static_cast<std::size_t>(operand)]);
    }
    return operands;
  }

 private:
  std::string_view text_;
  std::vector<std::string_view> words_;
  std::size_t next_ = 0;
};

std::optional<Operation> OperationOf(std::string_view name) {
  for (std::size_t operation = 0; operation < std::size(kOperations); ++operation)
    if (kOperations[operation].name == name) return static_cast<Operation>(operation);
  return std::nullopt;
}

int ReadConstant(Words& words, CodeBuilder& builder) {
  const Kind kind = words.NextKind();
  const double number = words.NextNumber<double>("a number");
  if (kind == Kind::kWhole && !(std::abs(number) <= 0x1p53 && std::floor(number) == number))
    words.Refuse("a whole number within 2^53");
  if (kind == Kind::kTruth && number != 0 && number != 1) words.Refuse("0 or 1");
  if (!words.done()) words.Refuse("nothing more");
  return builder.Constant(number, kind);
}

int ReadInstruction(Words& words, CodeBuilder& builder, const std::vector<int>& places) {
  const auto operation = OperationOf(words.Next("an operation"));
  if (!operation || !InTexts(*operation)) words.Refuse("an operation");
  if (*operation == kConstant) return ReadConstant(words, builder);
  if (*operation == kRead) {
    const Kind kind = words.NextKind();
    const int place = words.NextNumber<int>("a table");
    return builder.Read(place, kind, words.Operands(places));
  }
  if (*operation == kDot) {
    const int place = words.NextNumber<int>("a table"), other = words.NextNumber<int>("a table");
    const int of_first = words.NextNumber<int>("how many indices are of the first table");
    std::vector<int> indices = words.Operands(places);
    if (of_first < 0 || of_first > static_cast<int>(indices.size())) words.Refuse("as many indices as there are");
    return builder.Dot(place, other, std::move(indices), of_first);
  }
  std::vector<int> operands = words.Operands(places);
  if (static_cast<int>(operands.size()) != FactsOf(*operation).operands) words.Refuse("as many operands as the operation has");
  return operands.empty() ? builder.Leaf(*operation) : builder.Apply(*operation, std::move(operands));
}

}  // namespace

std::string ToText(const Code& code) {
  std::string text;
  for (int index = 0; index < code.size(); ++index) {
    const Instruction& instruction = code[index];
    const auto add = [&](std::string_view word) { text.append(" ").append(word); };
    if (index > 0) text += ';';
    text += FactsOf(instruction.operation).name;
    if (instruction.operation == kConstant || instruction.operation == kRead)
      add(kKinds[static_cast<std::size_t>(instruction.kind)]);
    if (instruction.operation == kConstant) add(NumberText(instruction.number));
    if (instruction.operation == kRead) add(std::to_string(instruction.reading.place));
    if (instruction.operation == kDot) {
      add(std::to_string(instruction.reading.place));
      add(std::to_string(instruction.reading.other));
      add(std::to_string(instruction.reading.indices));
    }
    for (int operand : instruction.operands) add(std::to_string(operand));
  }
  return text;
}

Code FromText(const std::string& text) {
  CodeBuilder builder;
  std::vector<int> places;
  for (std::string_view instruction : Split(text, ';')) {
    if (places.size() == CodeBuilder::kMostInstructions)
      core::Refuse("program", "expected at most " + std::to_string(CodeBuilder::kMostInstructions) + " operations");
    Words words(instruction);
    places.push_back(ReadInstruction(words, builder, places));
  }
  if (places.empty()) core::Refuse("program", "expected at least one instruction, got an empty text");
  return builder.Finish({places.back()});
}

}  // namespace heed::program
