#include "scheme_options.h"

#include <cstddef>
#include <optional>

#include <ATen/ATen.h>

#include "program_tables.h"
#include "refuse.h"

namespace heed::nn {
namespace {

// Adds a scheme's tensors to the options.
void AddTensorsOf(const AttentionPosition& scheme, AttentionOptions& options) {
  AttentionTensors own = scheme.tensors();
  const auto given = options.tensors().All();
  for (std::size_t t = 0; t < AttentionTensors::kCount; ++t) {
    const at::Tensor& tensor = *own.All()[t];
    if (!tensor.defined()) continue;
    if (given[t]->defined()) {
      const char* name = AttentionTensors::kNames[t];
      Refuse(name, ": position brings its own; give ", name, " or position, not both");
    }
    *given[t] = tensor;
  }
  if (own.slopes.defined()) options.slopes(own.slopes, scheme.symmetric());
}

}  // namespace

AttentionOptions WithScheme(const AttentionPosition& scheme, AttentionOptions options, const at::Tensor& query) {
  AddTensorsOf(scheme, options);
  if (const std::optional<PositionProgram> program = scheme.program()) {
    if (program->heads != 0 && program->heads != query.size(1)) {
      Refuse("position: the scheme is for ", program->heads, " heads, query has ", query.size(1));
    }
    PutBefore(program->program, program->tables, options);
  }
  if (!options.scale()) options.scale(scheme.default_scale(query.size(3)));
  return options;
}

}  // namespace heed::nn
