// torch.ops.heed.*: tables and information. Attention's operators are in attention_operators.cc.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "heed/attention.h"
#include "heed/nn/attention.h"
#include "heed/positions.h"
#include "refuse.h"
#include "tensor_view.h"
#include "translate_errors.h"
#include "version.h"

namespace heed::nn {
namespace {

at::Tensor SinusoidalTableOperator(int64_t steps, int64_t width, int64_t first_position, c10::string_view layout, double base,
                                   c10::string_view angles, c10::string_view spacing) {
  if (steps < 0) Refuse("steps: expected at least 0, got ", steps);
  if (width < 0) Refuse("width: expected at least 0, got ", width);
  SinusoidalOptions options;
  options.base = base;
  if (IsSecond("layout", layout, "interleaved", "halves")) options.layout = SinusoidalLayout::kHalves;
  if (IsSecond("angles", angles, "f64", "f32")) options.angles = Angles::kFloat32;
  if (IsSecond("spacing", spacing, "geometric", "inclusive")) options.spacing = SinusoidalSpacing::kInclusive;
  at::Tensor table = at::empty({steps, width}, at::kFloat);
  if (table.numel() > 0) SinusoidalTable(options, first_position, ViewOf<float, 2>(table));
  return table;
}

}  // namespace

std::string Version() { return HEED_VERSION; }

TORCH_LIBRARY(heed, m) {
  m.def(
      "sinusoidal_table(int steps, int width, int first_position=0, str layout='interleaved', float base=10000.0, "
      "str angles='f64', str spacing='geometric') -> Tensor",
      kKernel<&SinusoidalTableOperator>);
  m.def("alibi_slopes(int heads) -> float[]", kKernel<&AlibiSlopes>);
  m.def("supported_targets() -> str[]", &SupportedTargets);
  m.def("version() -> str", &Version);
  m.def("release_workspace() -> ()", &release_workspace);
}

}  // namespace heed::nn
