#include "program_tables.h"

#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "heed/nn/attention.h"
#include "refuse.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

constexpr std::size_t kPerTable = 5;

// Calls visit(whether whole, extent, first number among those of its kind, how many) for each table.
template <class Visit>
void ForEachTable(const std::vector<int64_t>& extents, const Visit& visit) {
  std::array<int64_t, 2> used{};
  for (std::size_t at = 0; at + kPerTable <= extents.size(); at += kPerTable) {
    const bool whole = extents[at] != 0;
    std::array<int64_t, 4> extent{};
    int64_t size = 1;
    for (std::size_t r = 0; r < extent.size(); ++r) {
      extent[r] = extents[at + 1 + r];
      if (extent[r] < 0 || __builtin_mul_overflow(size, extent[r], &size))
        Refuse("extents: expected those of tables, got ", extent[r]);
    }
    visit(whole, extent, used[whole], size);
    if (__builtin_add_overflow(used[whole], size, &used[whole])) throw InvalidArgument("extents: too large");
  }
}

void CheckCount(const char* option, const char* kind, const at::Tensor& numbers, int64_t expected) {
  const int64_t count = numbers.defined() ? numbers.numel() : 0;
  if (count != expected) {
    Refuse(option, "_", kind, ": expected the ", expected, " numbers of the tables, end to end, got ",
           numbers.defined() ? ShapeText(numbers) : std::string("none"));
  }
}

// Programs that came as texts, so that a text is taken apart once.
template <class Program>
Program KnownProgram(const std::string& text) {
  static std::mutex mutex;
  static std::map<std::string, Program> known;
  constexpr std::size_t kMost = 256;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(text); found != known.end()) return found->second;
  if (known.size() == kMost) known.clear();
  return known.emplace(text, Program::FromText(text)).first->second;
}

at::Tensor EndToEnd(std::vector<at::Tensor> parts) {
  std::erase_if(parts, [](const at::Tensor& part) { return !part.defined(); });
  if (parts.empty()) return {};
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

// The extents of tables, and their numbers end to end.
std::vector<int64_t> Flatten(const char* option, const std::vector<at::Tensor>& tables, at::Tensor& all_reals,
                             at::Tensor& all_wholes) {
  std::vector<int64_t> extents;
  std::vector<at::Tensor> reals, wholes;
  for (std::size_t place = 0; place < tables.size(); ++place) {
    const at::Tensor& table = tables[place];
    const std::string name = c10::str(option, ".tables[", place, "]");
    CheckDense(name.c_str(), table);
    const bool real = table.is_floating_point();
    if (table.dim() > 4 || (!real && !at::isIntegralType(table.scalar_type(), /*includeBool=*/true)))
      Refuse(name, ": expected at most 4 dimensions of floating point, integers or bool, got ", ShapeText(table), " ",
             table.scalar_type());
    extents.push_back(real ? 0 : 1);
    for (int64_t r = 0; r < 4; ++r) extents.push_back(r < 4 - table.dim() ? 1 : table.size(r - 4 + table.dim()));
    const bool narrow = table.scalar_type() != at::kDouble && table.scalar_type() != at::kFloat;
    const at::Tensor typed = real ? (narrow ? table.to(at::kFloat) : table) : table.to(at::kLong);
    (real ? reals : wholes).push_back(typed.reshape({-1}));
  }
  all_reals = EndToEnd(reals);
  all_wholes = EndToEnd(wholes);
  return extents;
}

}  // namespace

template <class A>
std::vector<ProgramTable> ProgramTables(const char* option, const std::vector<int64_t>& extents, const at::Tensor& reals,
                                        const at::Tensor& wholes) {
  if (extents.size() % kPerTable != 0) Refuse(option, "_extents: expected a kind and four extents for each table");
  std::array<int64_t, 2> counts{};
  ForEachTable(extents, [&](bool whole, const auto&, int64_t first, int64_t size) { counts[whole] = first + size; });
  CheckCount(option, "reals", reals, counts[0]);
  CheckCount(option, "wholes", wholes, counts[1]);
  std::vector<ProgramTable> tables;
  ForEachTable(extents, [&](bool whole, const std::array<int64_t, 4>& extent, int64_t first, int64_t) {
    if (whole) {
      tables.push_back(View<const int64_t, 4>::Contiguous(AddressOf<const int64_t>(wholes) + first, extent));
    } else {
      tables.push_back(View<const A, 4>::Contiguous(AddressOf<const A>(reals) + first, extent));
    }
  });
  return tables;
}

template <class A>
std::vector<View<A, 4>> ProgramGradients(const std::vector<int64_t>& extents, const at::Tensor& d_reals) {
  std::vector<View<A, 4>> gradients;
  if (!d_reals.defined()) return gradients;
  ForEachTable(extents, [&](bool whole, const std::array<int64_t, 4>& extent, int64_t first, int64_t) {
    gradients.push_back(whole ? View<A, 4>{} : View<A, 4>::Contiguous(AddressOf<A>(d_reals) + first, extent));
  });
  return gradients;
}

template std::vector<ProgramTable> ProgramTables<float>(const char*, const std::vector<int64_t>&, const at::Tensor&,
                                                        const at::Tensor&);
template std::vector<ProgramTable> ProgramTables<double>(const char*, const std::vector<int64_t>&, const at::Tensor&,
                                                         const at::Tensor&);
template std::vector<View<float, 4>> ProgramGradients<float>(const std::vector<int64_t>&, const at::Tensor&);
template std::vector<View<double, 4>> ProgramGradients<double>(const std::vector<int64_t>&, const at::Tensor&);

AttentionOptions& AttentionOptions::score(const ScoreProgram& program, const std::vector<at::Tensor>& tables) {
  score_extents_ = Flatten("score", tables, tensors_.score_reals, tensors_.score_wholes);
  score_ = program;
  return *this;
}

void PutBefore(const ScoreProgram& program, const std::vector<at::Tensor>& tables, AttentionOptions& options) {
  const auto captured = static_cast<std::size_t>(program.tables());
  if (tables.size() < captured) {
    Refuse("position: its program captured ", captured, " tables, got ", tables.size());
  }
  const std::optional<ScoreProgram> own = options.score();
  const std::vector<int64_t> own_extents = options.score_extents();
  AttentionTensors& tensors = options.tensors();
  const at::Tensor own_reals = tensors.score_reals, own_wholes = tensors.score_wholes;
  options.score(program, {tables.begin(), tables.begin() + static_cast<std::ptrdiff_t>(captured)});
  if (!own) return;
  std::vector<int64_t> extents = options.score_extents();
  extents.insert(extents.end(), own_extents.begin(), own_extents.end());
  const at::Tensor reals = EndToEnd({tensors.score_reals, own_reals}), wholes = EndToEnd({tensors.score_wholes, own_wholes});
  options.score(program.Then(*own)).score_extents(std::move(extents));
  tensors.score_reals = reals;
  tensors.score_wholes = wholes;
}

AttentionOptions& AttentionOptions::mask_program(const MaskProgram& program, const std::vector<at::Tensor>& tables) {
  mask_extents_ = Flatten("mask_program", tables, tensors_.mask_reals, tensors_.mask_wholes);
  mask_program_ = program;
  return *this;
}

AttentionOptions& AttentionOptions::score_text(const std::string& text) {
  score_.reset();
  if (!text.empty()) score_ = KnownProgram<ScoreProgram>(text);
  return *this;
}

AttentionOptions& AttentionOptions::mask_text(const std::string& text) {
  mask_program_.reset();
  if (!text.empty()) mask_program_ = KnownProgram<MaskProgram>(text);
  return *this;
}

}  // namespace heed::nn
