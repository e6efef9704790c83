// A program as the engine has it: instructions in the order of their computation, none twice; what they depend on, their
// derivatives, and programs as text.
#ifndef HEED_PROGRAM_CODE_H_
#define HEED_PROGRAM_CODE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "program/operation.h"

namespace heed::program {

// What a read or an inner product reads: tables by place, and how many of the operands index the first of them.
struct Reading {
  int place = -1, other = -1;
  int indices = 0;

  auto operator<=>(const Reading&) const = default;
};

struct Instruction {
  Operation operation;
  Kind kind;
  std::vector<int> operands;  // earlier instructions
  double number = 0;          // of constants; the place of what was kept
  Reading reading;
};

class Code {
 public:
  const Instruction& operator[](int index) const { return instructions_[static_cast<std::size_t>(index)]; }
  int size() const { return static_cast<int>(instructions_.size()); }
  // What the program is computed for: one result, or several gradients.
  const std::vector<int>& results() const { return results_; }
  int result() const { return results_.front(); }

  // The captured tables that it reads, by place: their kinds, and how many dimensions are indexed (of rows: and one more).
  // Those that it does not read have 0 dimensions.
  struct TableUse {
    Kind kind = Kind::kReal;
    int dimensions = 0;
  };
  const std::vector<TableUse>& tables() const { return tables_; }

 private:
  friend class CodeBuilder;
  std::vector<Instruction> instructions_;
  std::vector<int> results_;
  std::vector<TableUse> tables_;
};

// Adds instructions one by one: what is there already is not added again, constants are computed, and what changes nothing is
// left out. Throws InvalidArgument where kinds do not fit.
class CodeBuilder {
 public:
  static constexpr int kMostInstructions = 4096;
  static constexpr int kMostTables = 16;

  CodeBuilder() = default;
  // Begins with all instructions of other code, under their own numbers.
  explicit CodeBuilder(const Code& code);

  int Leaf(Operation operation);
  int Constant(double number, Kind kind);
  int Kept(int place);  // what was kept under that place; a real
  int Apply(Operation operation, std::vector<int> operands);
  // A table [.., rank] read at as many indices; rows: `indices` of the operands belong to the first table.
  int Read(int place, Kind kind, std::vector<int> indices);
  int Dot(int place, int other, std::vector<int> indices, int of_first);
  // An instruction of other code whose operands have become `operands`.
  int Again(const Instruction& instruction, std::vector<int> operands);

  const Instruction& operator[](int index) const { return code_[index]; }
  int size() const { return code_.size(); }
  // Leaves out what none of the results needs.
  Code Finish(const std::vector<int>& results) const;

 private:
  using Key = std::tuple<Operation, Kind, std::vector<int>, uint64_t, Reading>;
  int Add(Instruction instruction);
  void Use(int place, Kind kind, int dimensions);
  int Simplified(Operation operation, const std::vector<int>& operands);
  int SmallPower(int base, double exponent);
  bool IsConstant(int index, double number) const;

  Code code_;
  std::map<Key, int> known_;
};

// What each instruction of a program depends on, and with it how seldom it needs to be computed: along what a value changes
// within one batch row and head.
enum class Axis : uint8_t { kNone, kQuery, kKey, kOffset, kPair };

struct Domain {
  Axis axis = Axis::kNone;
  bool batch = false, head = false;  // whether it changes from batch row to batch row, from query head to query head

  bool pair() const { return axis == Axis::kPair; }
};

// What a call says of positions.
struct PositionForm {
  bool listed = false;   // one by one, for both sides; else they count up from an origin
  bool per_row = false;  // listed for each batch row
  bool packed = false;   // origins differ from sequence to sequence
};

// The program with positions that count up written as sums of index and origin, so that their differences are offsets.
Code WithOrigins(const Code& code, const PositionForm& form);

// The domain of each instruction of such a program. Offsets (key minus query, in any linear form) are found.
std::vector<Domain> DomainsOf(const Code& code, const PositionForm& form);

// The instructions that one needs, itself last, in the order of their computation.
std::vector<int> NeededBy(const Code& code, int instruction);

// Reverse mode: adds to `builder` what turns `gradient`, that of instruction `result`, into the gradients of `targets`. What
// targets are made of is not looked into. Returns one instruction for each target, -1 where the result does not depend on it.
std::vector<int> Differentiate(CodeBuilder& builder, int result, int gradient, const std::vector<int>& targets);

// Programs as text, one instruction after the other: how they cross from one language to another.
// "score;head;read real 0 1;add 0 2": instructions by name, each with the numbers of earlier ones; the last is the result.
// Constants and reads say their kind, reads their table, inner products both tables and how many indices are of the first.
std::string ToText(const Code& code);
// Throws InvalidArgument that names the instruction.
Code FromText(const std::string& text);

}  // namespace heed::program

#endif  // HEED_PROGRAM_CODE_H_
