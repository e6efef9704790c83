// Kept methods, read again.
#ifndef HEED_LAB_SERIES_METHOD_H_
#define HEED_LAB_SERIES_METHOD_H_

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lab/series/form.h"
#include "lab/series/kept_method.h"

namespace heed::lab {

// Answers windows of some data in the target's own units: float64 [scored, outputs], see SeriesBatch; of classes their
// probabilities.
using SeriesAnswers = std::function<at::Tensor(const std::vector<SeriesWindow>& windows)>;

// `past`: of a method that forecasts, the steps of each sequence that it may look at, from its first. Data, form and method
// must outlive what is returned. Throws FileError where no sequence is long enough for the method or a value has no logarithm
// that it needs.
SeriesAnswers AnswersOf(const KeptMethod& method, const SeriesForm& form, const SeriesData& data,
                        const std::vector<SeriesWindow>& past);

// What a model answers, [scored, outputs] as SeriesBatch has the targets, in the target's own units; logarithms of
// probabilities become probabilities.
at::Tensor InOwnUnits(const SeriesForm& form, const SeriesData& data, const std::vector<SeriesWindow>& windows,
                      const at::Tensor& answers);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_METHOD_H_
