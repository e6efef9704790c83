#include "position/pair_program/scheme.h"

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>

#include "core/arrays.h"
#include "core/refuse.h"

namespace heed::position {
namespace {

using program::Code;
using program::CodeBuilder;
using program::Kind;

using Names = std::array<std::string, CodeBuilder::kMostTables>;

Names NamesOf(const char* list) {
  Names names;
  for (std::size_t place = 0; place < names.size(); ++place)
    names[place] = std::string(list).append("[").append(std::to_string(place)).append("]");
  return names;
}

const char* NameIn(const Names& names, std::size_t place) { return names[std::min(place, names.size() - 1)].c_str(); }

const char* NameOf(Kind kind) {
  return kind == Kind::kReal ? "real numbers" : kind == Kind::kWhole ? "whole numbers" : "booleans";
}

Kind KindOf(const ProgramTable& table) {
  return std::visit(
      [](const auto& view) {
        using V = std::remove_cv_t<std::remove_pointer_t<decltype(view.data)>>;
        return std::is_same_v<V, bool> ? Kind::kTruth : std::is_same_v<V, int64_t> ? Kind::kWhole : Kind::kReal;
      },
      table);
}

std::array<int64_t, 4> ExtentOf(const ProgramTable& table) {
  return std::visit([](const auto& view) { return view.extent; }, table);
}

void CheckTable(const char* name, const ProgramTable& table, const Code::TableUse& use) {
  // Whole numbers that are not 0 are true.
  if (KindOf(table) != use.kind && !(use.kind == Kind::kTruth && KindOf(table) == Kind::kWhole))
    core::Refuse(name, std::string("the program reads ") + NameOf(use.kind) + ", got " + NameOf(KindOf(table)));
  const auto extent = ExtentOf(table);
  for (int r = 0; r < 4 - use.dimensions; ++r)
    if (extent[static_cast<std::size_t>(r)] != 1)
      core::Refuse(name, "expected 1 in all but the last " + std::to_string(use.dimensions) +
                             " extents, which the program reads, got " + core::ShapeText(extent));
}

// Programs compute whole numbers in double precision.
void CheckWholes(const char* name, const ProgramTable& table) {
  const auto* wholes = std::get_if<View<const int64_t, 4>>(&table);
  if (!wholes) return;
  constexpr int64_t kMost = int64_t{1} << 53;
  const auto& extent = wholes->extent;
  for (int64_t b = 0; b < extent[0]; ++b)
    for (int64_t h = 0; h < extent[1]; ++h)
      for (int64_t i = 0; i < extent[2]; ++i)
        for (int64_t j = 0; j < extent[3]; ++j)
          if (const int64_t number = (*wholes)(b, h, i, j); number > kMost || number < -kMost)
            core::Refuse(name, "expected whole numbers within 2^53, got " + std::to_string(number));
}

void CheckTables(const char* option, const Code& code, const std::vector<ProgramTable>& tables,
                 const char* (*name_of)(std::size_t)) {
  if (tables.size() < code.tables().size() || tables.size() > CodeBuilder::kMostTables)
    core::Refuse(std::string(option) + ".tables",
                 "expected " + std::to_string(code.tables().size()) + " tables, got " + std::to_string(tables.size()));
  for (std::size_t place = 0; place < code.tables().size(); ++place)
    if (code.tables()[place].dimensions > 0) {
      CheckTable(name_of(place), tables[place], code.tables()[place]);
      if (code.tables()[place].kind == Kind::kWhole) CheckWholes(name_of(place), tables[place]);
    }
  for (int index = 0; index < code.size(); ++index) {
    if (code[index].operation != program::Operation::kDot) continue;
    const auto& [place, other, indices] = code[index].reading;
    const auto a = ExtentOf(tables[static_cast<std::size_t>(place)]), b = ExtentOf(tables[static_cast<std::size_t>(other)]);
    if (a[3] != b[3])
      core::Refuse(name_of(static_cast<std::size_t>(other)), "expected rows as wide as those of table " +
                                                                 std::to_string(place) + ", " + std::to_string(a[3]) +
                                                                 ", got " + std::to_string(b[3]));
  }
}

program::PairFacts FactsOf(const CallFacts& call, std::size_t element_bytes, bool wide_reals) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  return {.wide_reals = wide_reals,
          .never_wide = element_bytes == sizeof(double),
          .batch = real(call.shape.batch),
          .heads = real(call.shape.q_heads),
          .queries = real(call.shape.q_len),
          .keys = real(call.shape.kv_len)};
}

}  // namespace

const char* ScoreTableName(std::size_t place) {
  static const Names names = NamesOf("score.tables");
  return NameIn(names, place);
}
const char* ScoreGradientName(std::size_t place) {
  static const Names names = NamesOf("d_score_tables");
  return NameIn(names, place);
}
const char* MaskTableName(std::size_t place) {
  static const Names names = NamesOf("mask_program.tables");
  return NameIn(names, place);
}

void PairProgramScheme::Check(const Attention& attention, const Shape&) {
  if (attention.score) CheckTables("score", attention.score->program.code(), attention.score->tables, &ScoreTableName);
  if (attention.mask_program)
    CheckTables("mask_program", attention.mask_program->program.code(), attention.mask_program->tables, &MaskTableName);
}

template <class T>
ScoreCall<T>::ScoreCall(const CallFacts& call, const PairForm& form, const BiasGradients<T>& wanted)
    : score_(*call.attention.score),
      form_(form),
      shape_(call.shape),
      tables_(ReadersOf(score_.program.code(), score_.tables)),
      forward_(ForwardCodeOf(score_.program.code(), form.positions())) {
  const program::PairFacts facts = FactsOf(call, sizeof(T), false);
  if (call.backward()) TakeGradients(call, wanted, facts);
  if (call.pass == Pass::kTangent) TakeTangents(wanted, facts);
  KernelCode kernel = KernelCodeOf(call.derives() ? backward_.forward : forward_.code, forward_.additive);
  factor_ = kernel.factor;
  code_ = std::make_unique<CallCode<T>>(std::move(kernel.code), facts, form_, tables_, forward_.additive);
}

template <class T>
void ScoreCall<T>::TakeGradients(const CallFacts& call, const BiasGradients<T>& wanted, const program::PairFacts& facts) {
  std::vector<char> wanted_places;
  for (std::size_t place = 0; place < score_.tables.size(); ++place) {
    wanted_.push_back(place < wanted.score_tables.size() ? wanted.score_tables[place] : View<T, 4>{});
    wanted_places.push_back(wanted_.back().present());
    any_wanted_ |= wanted_.back().present();
  }
  backward_ = BackwardCodeOf(forward_, form_.positions(), wanted_places);
  if (!backward_.code.results().empty()) gradient_code_ = std::make_unique<CallCode<T>>(backward_.code, facts, form_, tables_);
  if (call.pass == Pass::kBackwardTangent) {
    const Code curvature = CurvatureCodeOf(forward_);
    if (!curvature.results().empty()) curvature_code_ = std::make_unique<CallCode<T>>(curvature, facts, form_, tables_);
  }
  for (const GivenGradient& given : backward_.given) given_parts_.emplace_back(call, form_, given.domain);
  for (const View<T, 4>& gradient : wanted_) table_parts_.emplace_back(call, gradient);
  for (const ReadGradient& read : backward_.reads) {
    std::vector<int> indices;
    indices.reserve(read.indices.size());
    for (int result : read.indices) indices.push_back(backward_.code.results()[static_cast<std::size_t>(result)]);
    const auto of_first = indices.begin() + read.reading.indices;
    table_parts_[static_cast<std::size_t>(read.reading.place)].AddReading(backward_.code, {indices.begin(), of_first});
    if (read.dot)
      table_parts_[static_cast<std::size_t>(read.reading.other)].AddReading(backward_.code, {of_first, indices.end()});
  }
}

template <class T>
void ScoreCall<T>::TakeTangents(const BiasGradients<T>& tangents, const program::PairFacts& facts) {
  const std::size_t count = std::min(score_.tables.size(), tangents.score_tables.size());
  std::vector<int> places(count, -1);
  tangents_.reserve(count);
  for (std::size_t place = 0; place < count; ++place) {
    const View<T, 4>& tangent = tangents.score_tables[place];
    if (!tangent.present()) continue;
    places[place] = static_cast<int>(tables_.size());
    if (tables_.size() == CodeBuilder::kMostTables)
      core::Refuse("tangents.biases.score_tables",
                   "expected, with the tables themselves, at most " + std::to_string(CodeBuilder::kMostTables));
    tangents_.emplace_back(View<const T, 4>(tangent));
    tables_.emplace_back(tangents_.back(), Kind::kReal, tables_[place].dimensions());
  }
  backward_ = TangentCodeOf(forward_, form_.positions(), places);
  if (!backward_.code.results().empty()) gradient_code_ = std::make_unique<CallCode<T>>(backward_.code, facts, form_, tables_);
}

template <class T>
int64_t ScoreCall<T>::most_blocks() const {
  int64_t most = std::numeric_limits<int64_t>::max();
  for (std::size_t place = 0; place < table_parts_.size(); ++place)
    if (wanted_[place].present()) most = std::min(most, table_parts_[place].most_blocks());
  return most;
}

template <class T>
void ScoreCall<T>::LayPrepared(core::Arena& arena) {
  code_->Lay(arena);
  if (gradient_code_) gradient_code_->Lay(arena);
  if (curvature_code_) curvature_code_->Lay(arena);
}

template <class T>
void ScoreCall<T>::Prepare() const {
  code_->Prepare();
  if (gradient_code_) gradient_code_->Prepare();
  if (curvature_code_) curvature_code_->Prepare();
}

template <class T>
void ScoreCall<T>::LayParts(core::Arena& arena, const Blocks& blocks) {
  for (GivenParts<T>& parts : given_parts_) parts.Lay(arena);
  sums_.assign(wanted_.size(), nullptr);
  const auto lay_sums = [&](int place) {
    const auto x = static_cast<std::size_t>(place);
    if (place >= 0 && wanted_[x].present() && !sums_[x]) sums_[x] = arena.Take<double>(wanted_[x].size());
  };
  for (const GivenGradient& given : backward_.given)
    for (const ReadGradient& read : given.reads) {
      lay_sums(read.reading.place);
      lay_sums(read.reading.other);
    }
  for (std::size_t place = 0; place < table_parts_.size(); ++place)
    if (wanted_[place].present()) table_parts_[place].Lay(arena, blocks);
}

template <class T>
void ScoreCall<T>::Clear(int64_t sum) const {
  const int64_t rows = shape_.batch * shape_.q_heads;
  if (sum < rows) {
    for (const GivenParts<T>& parts : given_parts_) parts.Clear(sum / shape_.q_heads, sum % shape_.q_heads);
    return;
  }
  for (std::size_t place = 0; place < table_parts_.size(); ++place)
    if (wanted_[place].present()) table_parts_[place].Clear();
}

template <class T>
void ScoreCall<T>::Finish(int64_t sum) const {
  if (sum < shape_.batch * shape_.q_heads) return;
  for (std::size_t place = 0; place < wanted_.size(); ++place) {
    if (!wanted_[place].present()) continue;
    table_parts_[place].Finish();
    if (sums_[place]) std::fill_n(sums_[place], wanted_[place].size(), 0.0);
  }
  for (std::size_t x = 0; x < backward_.given.size(); ++x) SumGiven(x);
  for (std::size_t place = 0; place < wanted_.size(); ++place) {
    if (!sums_[place]) continue;
    const View<T, 4>& wanted = wanted_[place];
    const auto sums = View<const double, 4>::Contiguous(sums_[place], wanted.extent);
    for (int64_t b = 0; b < wanted.extent[0]; ++b)
      for (int64_t h = 0; h < wanted.extent[1]; ++h)
        for (int64_t i = 0; i < wanted.extent[2]; ++i)
          for (int64_t j = 0; j < wanted.extent[3]; ++j)
            wanted(b, h, i, j) = static_cast<T>(static_cast<double>(wanted(b, h, i, j)) + sums(b, h, i, j));
  }
}

// Takes the gradient of a value that does not depend on the pair on to the tables that it is made of.
template <class T>
void ScoreCall<T>::SumGiven(std::size_t x) const {
  const GivenGradient& given = backward_.given[x];
  std::vector<int> instructions;
  for (const ReadGradient& read : given.reads) {
    instructions.push_back(read.gradient);
    instructions.insert(instructions.end(), read.indices.begin(), read.indices.end());
  }
  if (instructions.empty()) return;
  std::array<double, program::Evaluation::kMost> gradients;
  Stretches stretches(given.code, given.domains, given.domain, instructions, tables_, form_);
  stretches.ForEach(
      [&](int64_t row, int64_t first, int64_t count) {
        given_parts_[x].Sum(row, first, count, gradients.data());
        if (given.domain.axis == program::Axis::kOffset) std::reverse(gradients.begin(), gradients.begin() + count);
        return static_cast<const double*>(gradients.data());
      },
      [&](const program::Evaluation& evaluation, int64_t, int64_t, int64_t count) {
        for (const ReadGradient& read : given.reads) {
          std::array<const double*, 8> indices{};
          for (std::size_t o = 0; o < read.indices.size(); ++o) indices[o] = evaluation.values(read.indices[o]);
          AddRead(read, indices.data(), evaluation.values(read.gradient), count);
        }
      });
}

template <class T>
void ScoreCall<T>::AddRead(const ReadGradient& read, const double* const* indices, const double* gradients,
                           int64_t count) const {
  for (int64_t n = 0; n < count; ++n) {
    if (gradients[n] == 0) continue;
    std::array<double, 8> at{};
    for (std::size_t o = 0; o < read.indices.size(); ++o) at[o] = indices[o][n];
    program::ForEachReadEntry(tables_, read.reading, read.dot, at.data(), static_cast<int>(read.indices.size()),
                              [&](int place, const std::array<int64_t, 4>& index, double factor) {
                                const auto x = static_cast<std::size_t>(place);
                                if (!sums_[x]) return;
                                const auto& extent = wanted_[x].extent;
                                sums_[x][((index[0] * extent[1] + index[1]) * extent[2] + index[2]) * extent[3] + index[3]] +=
                                    gradients[n] * factor;
                              });
  }
}

template <class T>
View<T, 4> ScoreCall<T>::TablePart(int place, int64_t block, int64_t chunk) const {
  const auto x = static_cast<std::size_t>(place);
  return wanted_[x].present() ? table_parts_[x].Part(block, chunk) : View<T, 4>{};
}

template <class T>
PairProgramCall<T>::PairProgramCall(const CallFacts& call, const BiasGradients<T>& wanted)
    : cut_(call.cut), backward_(call.backward()), form_(call.attention, call.shape) {
  if (call.attention.score) score_.emplace(call, form_, wanted);
  if (!call.attention.mask_program) return;
  const ProgramMask& mask = *call.attention.mask_program;
  mask_tables_ = ReadersOf(mask.program.code(), mask.tables);
  mask_ = std::make_unique<CallCode<T>>(program::WithOrigins(mask.program.code(), form_.positions()),
                                        FactsOf(call, sizeof(T), true), form_, mask_tables_);
}

template <class T>
void PairProgramCall<T>::LayPrepared(core::Arena& arena) {
  if (score_) score_->LayPrepared(arena);
  if (mask_) mask_->Lay(arena);
}

template <class T>
void PairProgramCall<T>::Prepare() const {
  if (score_) score_->Prepare();
  if (mask_) mask_->Prepare();
}

template <class T>
PairProgramCall<T>::Scratch::Scratch(core::Arena& arena, const PairProgramCall& call) {
  const attention::Cut& cut = call.cut_;
  const bool grouped = cut.group > 1, gradient = call.score_ && call.score_->has_gradient_code();
  if (call.score_) score = StripMemory(arena, call.score_->code(), cut.panel, grouped);
  if (call.mask_) mask = StripMemory(arena, *call.mask_, cut.panel, grouped);
  if (!gradient) return;
  this->gradient = StripMemory(arena, call.score_->gradient_code(), cut.panel, grouped);
  if (const CallCode<T>* code = call.score_->curvature_code()) curvature = StripMemory(arena, *code, cut.panel, grouped);
  score_nats = arena.Take<T>(cut.tile, cut.panel);
  kept = arena.Take<T>(static_cast<int64_t>(call.score_->code().pairs().results.size()) - 1, cut.tile, cut.panel);
  plain = arena.Take<T>(static_cast<int64_t>(call.score_->backward().given.size()), cut.tile, cut.panel);
  diagonals = arena.Take<T>(attention::kLaneQuantum * call.diagonals());
}

template class ScoreCall<float>;
template class ScoreCall<double>;
template class PairProgramCall<float>;
template class PairProgramCall<double>;

}  // namespace heed::position
