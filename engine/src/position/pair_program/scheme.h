// Programs of the caller's own for scores and masks.
#ifndef HEED_POSITION_PAIR_PROGRAM_SCHEME_H_
#define HEED_POSITION_PAIR_PROGRAM_SCHEME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "position/pair_program/call_code.h"
#include "position/pair_program/score_code.h"
#include "position/pair_program/sight.h"
#include "position/pair_program/table_gradients.h"
#include "position/scheme.h"
#include "program/code.h"

namespace heed::position {

// What the tables of a program are called in errors.
const char* ScoreTableName(std::size_t place);
const char* ScoreGradientName(std::size_t place);
const char* MaskTableName(std::size_t place);

// The score program of a call, with its gradients in the backward pass, and with its tangents where a call has some.
template <class T>
class ScoreCall {
 public:
  ScoreCall(const CallFacts& call, const PairForm& form, const BiasGradients<T>& wanted);

  const CallCode<T>& code() const { return *code_; }
  bool additive() const { return forward_.additive; }
  // What the result of `code` is to be multiplied with.
  double factor() const { return factor_; }
  // Whether the code, that of derivatives among them, reads scores in nats.
  bool reads_nats() const {
    const auto reads = [](const std::unique_ptr<CallCode<T>>& code) { return code && ReadsScore(code->code()); };
    return reads(code_) || reads(gradient_code_) || reads(curvature_code_);
  }
  const BackwardCode& backward() const { return backward_; }
  const CallCode<T>& gradient_code() const { return *gradient_code_; }
  const CallCode<T>* curvature_code() const { return curvature_code_.get(); }  // null where there is none, or no need of it
  bool wants_scores() const { return !backward_.given.empty() || !backward_.reads.empty(); }
  // Whether anything of the backward pass is computed by the program: its gradient is more than that of the result.
  bool has_gradient_code() const { return gradient_code_ != nullptr; }

  int64_t most_blocks() const;
  void LayPrepared(core::Arena& arena);
  void Prepare() const;
  void LayParts(core::Arena& arena, const Blocks& blocks);
  int64_t sums() const { return any_wanted_ ? shape_.batch * shape_.q_heads + 1 : 0; }
  void Clear(int64_t sum) const;
  void Finish(int64_t sum) const;

  const GivenParts<T>& given_parts(std::size_t x) const { return given_parts_[x]; }
  // Calls visit(place of the table, index, factor) for the entries that a reading of the backward pass is made of.
  template <class Visit>
  void ForEachEntry(const ReadGradient& read, const double* indices, const Visit& visit) const {
    program::ForEachReadEntry(tables_, read.reading, read.dot, indices, static_cast<int>(read.indices.size()), visit);
  }
  // Where a block and a chunk add the gradient of a table that is read for pairs; absent where not wanted.
  View<T, 4> TablePart(int place, int64_t block, int64_t chunk) const;

 private:
  void TakeGradients(const CallFacts& call, const BiasGradients<T>& wanted, const program::PairFacts& facts);
  void TakeTangents(const BiasGradients<T>& tangents, const program::PairFacts& facts);
  void SumGiven(std::size_t x) const;
  void AddRead(const ReadGradient& read, const double* const* indices, const double* gradients, int64_t count) const;

  const ProgramScore& score_;
  const PairForm& form_;
  Shape shape_;
  program::TableReaders tables_;
  std::vector<ProgramTable> tangents_;  // of tables, read behind all of these
  std::vector<View<T, 4>> wanted_;      // by place
  bool any_wanted_ = false;
  ForwardCode forward_;
  double factor_ = 1;
  std::unique_ptr<CallCode<T>> code_, gradient_code_, curvature_code_;
  BackwardCode backward_;
  std::vector<GivenParts<T>> given_parts_;
  std::vector<TablePairParts<T>> table_parts_;  // by place
  std::vector<double*> sums_;                   // by place: gradients from given values; null where there are none
};

template <class T>
class PairProgramCall : public SchemeCall<T> {
 public:
  PairProgramCall(const CallFacts& call, const BiasGradients<T>& wanted);

  const ScoreCall<T>* score() const { return score_ ? &*score_ : nullptr; }
  const CallCode<T>* mask() const { return mask_ ? &*mask_ : nullptr; }

  void LayPrepared(core::Arena& arena);
  void Prepare() const;
  bool wants_scores() const { return score_ && score_->wants_scores(); }
  int64_t most_blocks() const { return score_ ? score_->most_blocks() : SchemeCall<T>::most_blocks(); }
  void LayParts(core::Arena& arena, const Blocks& blocks) {
    if (score_) score_->LayParts(arena, blocks);
  }
  int64_t sums() const { return score_ ? score_->sums() : 0; }
  void Clear(int64_t sum) const { score_->Clear(sum); }
  void Finish(int64_t sum) const { score_->Finish(sum); }

  struct Scratch {
    StripMemory score, gradient, curvature, mask;
    T* score_nats = nullptr;  // [tile, panel] the scores that the program was given
    T* kept = nullptr;        // [values kept, tile, panel] for the gradient's code
    T* plain = nullptr;       // [given gradients, tile, panel] of all pairs of a tile
    T* diagonals = nullptr;   // copies of sums along diagonals

    Scratch(core::Arena& arena, const PairProgramCall& call);
  };
  // Room for the diagonals of a tile.
  int64_t diagonals() const { return cut_.tile + cut_.panel + attention::kLaneQuantum; }

 private:
  attention::Cut cut_;
  bool backward_;
  PairForm form_;
  std::optional<ScoreCall<T>> score_;
  program::TableReaders mask_tables_;
  std::unique_ptr<CallCode<T>> mask_;
};

inline bool HoldsReals(const ProgramTable& table) {
  return std::holds_alternative<View<const float, 4>>(table) || std::holds_alternative<View<const double, 4>>(table);
}

struct PairProgramScheme : Scheme<PairProgramScheme> {
  static constexpr bool kPassesTangents = true, kHasTangents = true;
  static bool Present(const Attention& attention) { return attention.score || attention.mask_program; }
  static void Check(const Attention& attention, const Shape& shape);
  static bool Hides(const Attention& attention) { return attention.mask_program.has_value(); }
  using Sight = PairProgramSight;

  template <class Options, class Gradients, class Visit>
  static void ForEachTable(Options& attention, Gradients& gradients, const Visit& visit) {
    const std::size_t tables = attention.score ? attention.score->tables.size() : 0;
    for (std::size_t x = 0; x < tables; ++x) visit(ScoreTableName(x), &attention.score->tables[x]);
    for (std::size_t x = 0; attention.mask_program && x < attention.mask_program->tables.size(); ++x)
      visit(MaskTableName(x), &attention.mask_program->tables[x]);
    if constexpr (!std::is_const_v<Gradients>)
      if (gradients.score_tables.size() < tables) gradients.score_tables.resize(tables);
    // Of tables that hold no real numbers there is no gradient.
    for (std::size_t x = 0; x < gradients.score_tables.size(); ++x) {
      const bool real = x < tables && HoldsReals(attention.score->tables[x]);
      visit(nullptr, real ? &attention.score->tables[x] : nullptr, ScoreGradientName(x), gradients.score_tables[x]);
    }
  }
  template <class T>
  using Call = PairProgramCall<T>;
};

}  // namespace heed::position

#endif  // HEED_POSITION_PAIR_PROGRAM_SCHEME_H_
