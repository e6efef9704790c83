// The tensors that programs capture: end to end in one tensor of reals and one of whole numbers, and as the engine reads them.
#ifndef HEED_NN_SRC_PROGRAM_TABLES_H_
#define HEED_NN_SRC_PROGRAM_TABLES_H_

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "heed/attention.h"
#include "heed/nn/attention.h"
#include "heed/score_program.h"

namespace heed::nn {

// extents: of each table its kind (0 real, 1 whole) and four extents. A: the accumulator, the type of `reals`. Throws
// InvalidArgument where the numbers are not as many as the extents say; the views live as long as both tensors.
template <class A>
std::vector<ProgramTable> ProgramTables(const char* option, const std::vector<int64_t>& extents, const at::Tensor& reals,
                                        const at::Tensor& wholes);

// Where the gradients of the tables lie in that of `reals`; absent for whole numbers, and where it is undefined.
template <class A>
std::vector<View<A, 4>> ProgramGradients(const std::vector<int64_t>& extents, const at::Tensor& d_reals);

// Makes a program the one that a call's own, where it has one, works on the results of. Throws InvalidArgument unless the
// tables are those that it captured.
void PutBefore(const ScoreProgram& program, const std::vector<at::Tensor>& tables, AttentionOptions& options);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_PROGRAM_TABLES_H_
