// The figures of a comparison.
#ifndef HEED_BOOK_COMPARISON_FIGURES_H_
#define HEED_BOOK_COMPARISON_FIGURES_H_

#include <vector>

#include "book/comparison/comparison.h"
#include "lab/report/figure.h"

namespace heed::lab {

// Which of five tokens reads which, drawn from traced runs: two layers of a centred convolution with a window of three, a
// recurrence, self-attention (compare d2l, section 11.6, figure 11.6.1).
Figure ArchitecturesFigure();
// The same of the attention models that came before the Transformer: lstmn, decomposable, self-attentive, intra-decoder.
Figure AttentionModelsFigure();

// The drawings, the second where one of its models is compared; over the length (with at least two of them) operations, the
// terms of self-attention, sequential steps, span, paths, memory and, when measured, time and speed-up; over the distance, when
// measured, influence.
std::vector<Figure> ComparisonFigures(const Comparison& comparison);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_FIGURES_H_
