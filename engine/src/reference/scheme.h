// A positional scheme in double precision, and how it is tried out: position/NAME/reference.h has that of scheme NAME.
#ifndef HEED_REFERENCE_SCHEME_H_
#define HEED_REFERENCE_SCHEME_H_

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "heed/attention.h"
#include "reference/formulas.h"

namespace heed::reference {

struct Case;
struct Cost;
struct Option;
class CaseTable;
template <class A>
class RandomTables;
using Random = std::mt19937_64;

// The keys that a query of a head may look at, in their order.
struct SeenKeys {
  int64_t b, h, i;
  std::vector<int64_t> keys;
};

// What schemes do not have. Scheme stands for the class that derives from this and replaces what it has; it adds
//   static void ForEachTable(const Attention&, Gradients&, visit);
//       calls visit(name of the gradient, table, gradient) for the tables of a call. Gradients: BiasGradients
//   static void Fill(const OwnCase&, const Shape&, RandomTables<A>&, Attention&);   sets the option where the case has it
//   static bool Draw(Case&, Random&);                chooses what a random case says of it; whether it is in it
//   static void AddCases(CaseTable&);                rows for it alone, at its edges, and with what it shares code with
//   static void AddOptions(std::vector<Option>&);    what is tried alone and beside every other option
//   static void AddCosts(std::vector<Cost>&);        what option_cost_bench times
struct SchemeReference {
  static bool Hides(const Formulas&, const Pair&) { return false; }

  // What it multiplies column c of q.k with.
  static double Factor(const Formulas&, const Pair&, int64_t /*c*/) { return 1; }
  // Adds what it adds: to q.k, inside scale * (..), to the score, and to the value that a key gives. Derivatives are those of
  // the numbers that are added.
  static void AddToProduct(const Formulas&, const Pair&, Number& /*product*/) {}
  static void AddToScore(const Formulas&, const Pair&, Number& /*score*/) {}
  static void AddToValue(const Formulas&, const Pair&, std::span<Number> /*value*/) {}

  // What it makes of the whole score, after all that is added: the new score in the place of the old one.
  static void MakeScore(const Formulas&, const Pair&, Number& /*score*/) {}
  // The same of scores that depend on each other: those of all keys that a query sees, after all that single pairs make.
  static void MakeRow(const Formulas&, const SeenKeys&, std::span<Number> /*scores*/) {}

  // The score of a key without a value that it brings for a row.
  static std::optional<Number> KeyScore(const Formulas&, int64_t /*b*/, int64_t /*h*/, int64_t /*i*/) { return std::nullopt; }

  // Of a case at any length, makes the caller's own arrays small.
  static void LimitArrays(Case&) {}
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_SCHEME_H_
