// Programs in double precision.
#ifndef HEED_POSITION_PAIR_PROGRAM_REFERENCE_H_
#define HEED_POSITION_PAIR_PROGRAM_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/scheme.h"

namespace heed::reference {

struct PairProgramCase {
  int score_program = -1, mask_rule = -1;  // of those below; -1: none
  uint64_t program_seed = 0;               // of a random program
  bool operator==(const PairProgramCase&) const = default;
};

// The programs that cases have, by number; one more is random.
int ScorePrograms();
int MaskRules();

struct PairProgramReference : SchemeReference {
  static bool Hides(const Formulas& f, const Pair& pair);
  static void MakeScore(const Formulas& f, const Pair& pair, Number& score);

  template <class Gradients, class Visit>
  static void ForEachTable(const Attention& attention, Gradients& gradients, const Visit& visit) {
    if (!attention.score) return;
    const std::vector<ProgramTable>& tables = attention.score->tables;
    gradients.score_tables.resize(tables.size());
    for (std::size_t x = 0; x < tables.size(); ++x)
      if (const auto real = AsReal(tables[x])) visit(GradientName(x), *real, gradients.score_tables[x]);
  }
  template <class A>
  static void Fill(const PairProgramCase& c, const Shape& shape, RandomTables<A>& tables, Attention& attention);
  static bool Draw(Case& c, Random& random);
  static void AddCases(CaseTable& table);
  static void AddOptions(std::vector<Option>& options);
  static void AddCosts(std::vector<Cost>& costs);

 private:
  static const char* GradientName(std::size_t place);
  static std::optional<Table<4>> AsReal(const ProgramTable& table);
};

}  // namespace heed::reference

#endif  // HEED_POSITION_PAIR_PROGRAM_REFERENCE_H_
