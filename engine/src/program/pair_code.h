// The part of a program that is computed for every pair: steps over strips of a tile, in the registers that they need.
#ifndef HEED_PROGRAM_PAIR_CODE_H_
#define HEED_PROGRAM_PAIR_CODE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "program/code.h"

namespace heed::program {

// Numbers that do not depend on the pair and are read by what does: computed once for all tokens or offsets.
struct Given {
  int instruction;
  Domain domain;
  bool narrow = false, wide = false;  // which elements they are read as
};

// Elements are of the type of the scores, or wide: double, for what the former cannot hold exactly.
enum class Element : uint8_t { kNarrow, kWide };

// Where an operand stands.
struct Operand {
  enum class Place : uint8_t { kRegister, kGiven, kConstant, kScore, kScoreBits, kGradient, kKept } place = Place::kConstant;
  int index = 0;  // of a register, of a given value, of a constant, of what was kept
};

struct Step {
  enum class Kind : uint8_t {
    kCompute,  // an operation without leaves
    kRead,     // a table, or two
    kConvert,  // to the element of the step from the other
  } kind = Kind::kCompute;
  Element element = Element::kNarrow;  // of operands and result; of a conversion the result's, of a reading the operands'
  Operation operation{};
  int instruction = -1;  // of a reading
  std::vector<Operand> operands;
  int result = 0;                        // register
  Element of_result = Element::kNarrow;  // of a reading: the element of what is read
};

struct PairCode {
  struct Result {
    Operand operand;
    Element element;
  };
  std::vector<Given> given;
  std::vector<double> constants;
  std::vector<Step> steps;
  std::vector<Result> results;  // of the code's results
  int registers = 0;
  bool any_wide = false;  // whether any element is
};

// What the pair code is compiled for.
struct PairFacts {
  bool wide_reals = false;                             // compute reals as wide elements too
  bool never_wide = false;                             // the scores are double already
  double batch = 0, heads = 0, queries = 0, keys = 0;  // extents, which bound whole numbers
};

// Steps for the results of `code`, whose instructions have the domains given.
PairCode CompilePairs(const Code& code, const std::vector<Domain>& domains, const PairFacts& facts);

}  // namespace heed::program

#endif  // HEED_PROGRAM_PAIR_CODE_H_
