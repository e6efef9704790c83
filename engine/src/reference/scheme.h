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
#include "reference/gradients.h"

namespace heed::reference {

struct Case;
struct Cost;
struct Option;
class CaseTable;
template <class A>
class RandomTables;
using Random = std::mt19937_64;

// Derivatives of a pair's product, before its scale, by the numbers of its query and of its key.
struct Partials {
  std::vector<double> by_query, by_key;
};

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

  // What it adds: to q.k, inside scale * (..), to the score, and to the value that a key gives.
  static double ProductTerm(const Formulas&, const Pair&) { return 0; }
  static void AddToScore(const Formulas&, const Pair&, Sum& /*score*/) {}
  static void AddToValue(const Formulas&, const Pair&, std::span<Sum> /*value*/) {}

  // The derivatives of the first, and the gradients of its tables from that of what it adds to.
  static void AddToPartials(const Formulas&, const Pair&, Partials&) {}
  static void AddProductGradients(const Formulas&, const Pair&, const GradientTerm& /*product*/, const GradientSums&) {}
  // Adds the tangent of AddToScore where its tables have one.
  static void AddToTangent(const Formulas&, const Pair&, const BiasGradients<double>& /*tangents*/, double& /*tangent*/) {}
  // What it makes of the whole score, after all that is added: the new score in the place of the old one, and backward the
  // gradient of the old one (`before`) from that of the new one.
  static void MakeScore(const Formulas&, const Pair&, Sum& /*score*/) {}
  static GradientTerm PassBack(const Formulas&, const Pair&, const Sum& /*before*/, const GradientTerm& score,
                               const GradientSums&) {
    return score;
  }
  // The same of scores that depend on each other: those of all keys that a query sees, after all that single pairs make.
  static void MakeRow(const Formulas&, const SeenKeys&, std::span<Sum> /*scores*/) {}
  static void PassRowBack(const Formulas&, const SeenKeys&, std::span<const Sum> /*before*/, std::span<GradientTerm> /*scores*/,
                          const GradientSums&) {}
  static void AddScoreGradients(const Formulas&, const Pair&, const GradientTerm& /*score*/, const GradientSums&) {}
  static void AddValueGradients(const Formulas&, const Pair&, std::span<const double> /*value*/, const GradientSums&) {}

  // The score of a key without a value that it brings for a row, the tangent of that score where its tables have one, and the
  // gradient of its tables from that score's.
  static std::optional<double> KeyScore(const Formulas&, int64_t /*b*/, int64_t /*h*/, int64_t /*i*/) { return std::nullopt; }
  static double KeyTangent(const Formulas&, int64_t /*b*/, int64_t /*h*/, int64_t /*i*/, const BiasGradients<double>&) {
    return 0;
  }
  static void AddKeyGradient(const Formulas&, int64_t /*b*/, int64_t /*h*/, int64_t /*i*/, const GradientTerm& /*score*/,
                             const GradientSums&) {}

  // Of a case at any length, makes the caller's own arrays small.
  static void LimitArrays(Case&) {}
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_SCHEME_H_
