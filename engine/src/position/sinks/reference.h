// Sinks in double precision.
#ifndef HEED_POSITION_SINKS_REFERENCE_H_
#define HEED_POSITION_SINKS_REFERENCE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "reference/scheme.h"

namespace heed::reference {

struct SinksCase {
  bool sinks = false, sink_of_rows = false;  // one a head, or one a row
  double sink_size = 1;                      // how far from 0
  bool operator==(const SinksCase&) const = default;
};

struct SinksReference : SchemeReference {
  static std::optional<Number> KeyScore(const Formulas& f, int64_t b, int64_t h, int64_t i);

  template <class Gradients, class Visit>
  static void ForEachTable(const Attention& attention, Gradients& gradients, const Visit& visit) {
    if (attention.sinks) visit("dSinks", attention.sinks->scores, gradients.sinks);
  }
  template <class A>
  static void Fill(const SinksCase& c, const Shape& shape, RandomTables<A>& tables, Attention& attention) {
    if (!c.sinks) return;
    const bool rows = c.sink_of_rows && !attention.packed.present();
    const auto grow = [&](A& score) { score *= static_cast<A>(c.sink_size); };
    attention.sinks = Sinks{tables.Make(std::array{rows ? shape.batch : 1, shape.q_heads, rows ? shape.q_len : 1}, grow)};
  }
  static bool Draw(Case& c, Random& random);
  static void AddCases(CaseTable& table);
  static void AddOptions(std::vector<Option>& options);
  static void AddCosts(std::vector<Cost>& costs);
};

}  // namespace heed::reference

#endif  // HEED_POSITION_SINKS_REFERENCE_H_
