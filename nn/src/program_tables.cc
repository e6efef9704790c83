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
        throw InvalidArgument("extents: expected those of tables, got " + std::to_string(extent[r]));
    }
    visit(whole, extent, used[whole], size);
    if (__builtin_add_overflow(used[whole], size, &used[whole])) throw InvalidArgument("extents: too large");
  }
}

void CheckCount(const char* option, const char* kind, const at::Tensor& numbers, int64_t expected) {
  const int64_t count = numbers.defined() ? numbers.numel() : 0;
  if (count != expected) {
    throw InvalidArgument(std::string(option) + "_" + kind + ": expected the " + std::to_string(expected) +
                          " numbers of the tables, end to end, got " +
                          (numbers.defined() ? ShapeText(numbers) : std::string("none")));
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

// Tables end to end, as the options keep them.
struct Flat {
  std::vector<int64_t> extents;
  at::Tensor reals, wholes;
};

at::Tensor EndToEnd(const std::vector<at::Tensor>& parts) {
  if (parts.empty()) return {};
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

Flat Flatten(const char* option, const std::vector<at::Tensor>& tables) {
  Flat flat;
  std::vector<at::Tensor> reals, wholes;
  for (std::size_t place = 0; place < tables.size(); ++place) {
    const at::Tensor& table = tables[place];
    const std::string name = c10::str(option, ".tables[", place, "]");
    CheckDense(name.c_str(), table);
    const bool real = table.is_floating_point();
    if (table.dim() > 4 || (!real && !at::isIntegralType(table.scalar_type(), /*includeBool=*/true)))
      throw InvalidArgument(name + ": expected at most 4 dimensions of floating point, integers or bool, got " +
                            ShapeText(table) + " " + at::toString(table.scalar_type()));
    flat.extents.push_back(real ? 0 : 1);
    for (int64_t r = 0; r < 4; ++r) flat.extents.push_back(r < 4 - table.dim() ? 1 : table.size(r - 4 + table.dim()));
    const bool narrow = table.scalar_type() != at::kDouble && table.scalar_type() != at::kFloat;
    const at::Tensor typed = real ? (narrow ? table.to(at::kFloat) : table) : table.to(at::kLong);
    (real ? reals : wholes).push_back(typed.reshape({-1}));
  }
  flat.reals = EndToEnd(reals);
  flat.wholes = EndToEnd(wholes);
  return flat;
}

// The numbers of two programs' tables, end to end.
at::Tensor Joined(const at::Tensor& first, const at::Tensor& second) {
  if (!first.defined() || !second.defined()) return first.defined() ? first : second;
  return at::cat({first, second});
}

}  // namespace

template <class A>
std::vector<ProgramTable> ProgramTables(const char* option, const std::vector<int64_t>& extents, const at::Tensor& reals,
                                        const at::Tensor& wholes) {
  if (extents.size() % kPerTable != 0)
    throw InvalidArgument(std::string(option) + "_extents: expected a kind and four extents for each table");
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
  Flat flat = Flatten("score", tables);
  score_ = program;
  score_extents_ = std::move(flat.extents);
  tensors_.score_reals = std::move(flat.reals);
  tensors_.score_wholes = std::move(flat.wholes);
  return *this;
}

void PutBefore(const ScoreProgram& program, const std::vector<at::Tensor>& tables, AttentionOptions& options) {
  const auto captured = static_cast<std::size_t>(program.tables());
  if (tables.size() < captured) {
    throw InvalidArgument("position: its program captured " + std::to_string(captured) + " tables, got " +
                          std::to_string(tables.size()));
  }
  const std::optional<ScoreProgram> own = options.score();
  const std::vector<int64_t> extents = options.score_extents();
  const at::Tensor reals = options.tensors().score_reals, wholes = options.tensors().score_wholes;
  options.score(program, {tables.begin(), tables.begin() + static_cast<std::ptrdiff_t>(captured)});
  if (!own) return;
  std::vector<int64_t> all = options.score_extents();
  all.insert(all.end(), extents.begin(), extents.end());
  const at::Tensor all_reals = Joined(options.tensors().score_reals, reals);
  const at::Tensor all_wholes = Joined(options.tensors().score_wholes, wholes);
  options.score(program.Then(*own));
  options.score_extents(std::move(all));
  options.tensors().score_reals = all_reals;
  options.tensors().score_wholes = all_wholes;
}

AttentionOptions& AttentionOptions::mask_program(const MaskProgram& program, const std::vector<at::Tensor>& tables) {
  Flat flat = Flatten("mask_program", tables);
  mask_program_ = program;
  mask_extents_ = std::move(flat.extents);
  tensors_.mask_reals = std::move(flat.reals);
  tensors_.mask_wholes = std::move(flat.wholes);
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
