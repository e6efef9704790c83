// A training on its way.
#ifndef HEED_LAB_TRAINING_CURVE_H_
#define HEED_LAB_TRAINING_CURVE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace heed::lab {

struct CurvePoint {
  int64_t steps;      // that were done
  double training;    // the mean loss over the steps since the point before
  double validation;  // the loss on the validation part, of the weights to use (AdamW::UseMeans)
};

// The first point behind so many steps of a training that is measured after whole * 2^(k/2) steps for every whole k, but not
// before a sixty-fourth of `whole` and 8 steps, unless `whole` is less.
int64_t PointAfter(int64_t steps, int64_t whole);

// Whether a training of `whole` steps has ended by itself at the last point, where that of the least validation loss is `best`:
// four points in a row have brought nothing better, which is four times its steps, and an eighth of `whole` is done.
bool PastItsBest(std::span<const CurvePoint> curve, std::size_t best, int64_t whole);

constexpr double kLawErrs = 0.5;  // share of a gain that a curve foretells by which it may be wrong

// What a curve foretells: the loss on the validation part after so many steps, how far that is below its least so far, and how
// far off it may be: half of the gain, and as far as the same law, given the first half of the curve, missed its last point.
// The two add up as independent errors do.
struct Foretold {
  double loss, gain, error;
};
// With each doubling of the steps the loss falls by the same share of its fall before: a power law with a limit, through the
// best point and those half and a quarter as far. The share is at most what a power law without a limit makes of the first two,
// which is what it is where there is no third. The best loss itself where the last two points are no better than
// an earlier one; nothing where there are no such points.
std::optional<Foretold> Foretell(std::span<const CurvePoint> curve, int64_t steps);

// The points up to the one 1/times as far as the last, by which the last can be foretold. times: at least 1.
std::span<const CurvePoint> FirstPart(std::span<const CurvePoint> curve, double times);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_CURVE_H_
