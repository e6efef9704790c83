// Instructions that do not depend on the pair, computed for many tokens or offsets at once, in double precision.
#ifndef HEED_PROGRAM_EVALUATION_H_
#define HEED_PROGRAM_EVALUATION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "program/code.h"
#include "program/table_reader.h"

namespace heed::program {

// Where along a domain values are wanted.
struct Stretch {
  Axis axis = Axis::kNone;
  int64_t b = 0, h = 0;
  int64_t first = 0, count = 1;  // queries, keys, or offsets (which may be negative); 1 without an axis
  double query_origin = 0, key_origin = 0;
  const double *query_positions = nullptr, *key_positions = nullptr;  // of the batch row, where they are listed
  const double* gradients = nullptr;                                  // [count] what kGradient stands for
};

class Evaluation {
 public:
  static constexpr int64_t kMost = 256;  // of a stretch

  // Computes the instructions given, in their order; they need no others. What has no axis is computed once a stretch.
  Evaluation(const Code& code, const std::vector<Domain>& domains, std::vector<int> instructions, const TableReaders& tables);

  // What does not change from the stretch before to this one, of another batch row or head, is not computed again.
  void Run(const Stretch& stretch);
  // [count] of one of the instructions.
  const double* values(int instruction) const { return values_.data() + place_[static_cast<std::size_t>(instruction)] * kMost; }

 private:
  void Compute(const Instruction& instruction, const Stretch& stretch, double* values) const;
  void Leaf(Operation operation, const Stretch& stretch, double* values) const;

  const Code& code_;
  const std::vector<Domain>& domains_;
  std::vector<int> instructions_;
  const TableReaders& tables_;
  std::vector<int64_t> place_;  // of an instruction among those computed
  std::vector<double> values_;
  std::optional<Stretch> last_;
};

}  // namespace heed::program

#endif  // HEED_PROGRAM_EVALUATION_H_
