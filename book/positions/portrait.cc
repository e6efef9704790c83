#include "book/positions/portrait.h"

#include <algorithm>
#include <iterator>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "book/positions/input_rows.h"
#include "heed/error.h"
#include "heed/nn/rotations.h"
#include "heed/nn/window_biases.h"

namespace heed::lab {
namespace {

using enum WidthUnit;

std::shared_ptr<nn::AttentionPosition> MakeAxialRotary(const PositionsOptions& options) {
  return nn::AxialRotary(options.width).ptr();
}

std::shared_ptr<nn::AttentionPosition> MakeSwin(const PositionsOptions& options) {
  return nn::SwinBias(options.width, SideOf(options)).ptr();
}

std::shared_ptr<nn::AttentionPosition> MakeSwinV2(const PositionsOptions& options) {
  return nn::SwinV2Bias(options.width, SideOf(options)).ptr();
}

const Portrait kPortraits[] = {
    {.name = "sinusoidal",
     .unit = kEncoding,
     .about =
         "Each position is a row of sines and cosines whose frequencies fall from column to column, added to the input. The "
         "row of a position further on is the same row turned, by angles that depend on the shift alone; the product of "
         "two rows falls in waves as their distance grows, and is the same on both sides, so that left and right are told "
         "apart by what projections make of the rows. Within its longest period no two positions are alike, but rows "
         "beyond those of a training are unfamiliar.",
     .draw = &SinusoidalFigures},
    {.name = "learned",
     .unit = kEncoding,
     .random = true,
     .about =
         "Each position has a row of its own, which is trained and added to the input. As the distance grows nothing is "
         "given: that neighbours are near each other every row has to learn for itself. Within the table all positions can "
         "be told apart; behind the last position of the training there is no row, or, where it is repeated, all "
         "positions are one.",
     .rows = &LearnedRows,
     .draw = &LearnedFigures},
    {.name = "random_fourier",
     .unit = kEncoding,
     .multiple = 2,
     .random = true,
     .about =
         "Each position, a real number, is a row of cosines and sines whose frequencies are drawn at random, once, added to "
         "the "
         "input. As the distance of two positions grows, the product of their rows falls along a bell curve, whose width the "
         "scale of the frequencies decides, and then wavers about zero, the less the wider the encoding; it is the same on "
         "both "
         "sides. Positions much nearer than that width cannot be told apart, and those much farther all look equally far.",
     .rows = &RandomFourierRows,
     .draw = &RandomFourierFigures},
    {.name = "rotary",
     .unit = kHead,
     .multiple = 2,
     .about =
         "Queries and keys are turned, pair by pair of their columns, by angles in proportion to their positions, so that "
         "their product depends on the offset of the key and on what they hold. As the distance grows a query meets each "
         "key at other angles, fast pairs first, and the score wavers within bounds: far keys never vanish. It cannot tell "
         "where in a text it is, so that the first token is but the farthest; and angles beyond those of a training are "
         "unfamiliar.",
     .draw = &RotaryFigures},
    {.name = "axial_rotary",
     .unit = kHead,
     .multiple = 4,
     .square = true,
     .about =
         "Tokens stand in rows and columns, as the patches of an image do. The first half of the columns of queries and keys "
         "is "
         "turned by the row, the second by the column, each as rotary positions turn them, so that a product depends on both "
         "offsets and on what the tokens hold. As the distance along one axis grows, half of the score wavers within bounds "
         "and "
         "the other half stays: what stands in line with the query remains half alike, however far. It cannot tell where in "
         "the "
         "image it is, and no pair of columns knows of both axes.",
     .make = &MakeAxialRotary,
     .draw = &AxialRotaryFigures},
    {.name = "xpos",
     .unit = kHead,
     .multiple = 2,
     .about =
         "Queries and keys are turned as rotary positions turn them, and each pair of columns fades with the distance: to "
         "0.29 of its size at 512 positions for the fastest pair, hardly at all for the slowest. So a far key has lost the "
         "fast pairs and is seen roughly, by the slow ones. It is for causal attention, because towards later keys the "
         "products would grow; like rotary it cannot tell where in a text it is.",
     .numbers = &PairsByDistance,
     .draw = &FadingFigures},
    {.name = "alibi",
     .unit = kHeads,
     .about = "Each head takes its slope times the distance from a score: what is far counts less, and nothing is trained. A "
              "query loses sight of keys in proportion to their distance, steep heads after a few positions, flat ones after "
              "hundreds. Without causality it cannot tell left from right; no head can prefer a farther key to a nearer one, "
              "and none can find the first token.",
     .draw = &AlibiFigures},
    {.name = "relative",
     .unit = kHeads,
     .clips = true,
     .about = "Each head adds to a score a trained number for the offset of the key from the query. What a query does as the "
              "distance grows is what it has learnt, offset by offset and on either side, whatever the tokens say. Offsets "
              "beyond the largest share its number, so that far is not told from farther.",
     .numbers = &TableOfScheme,
     .draw = &BiasFigures,
     .words = {.subject = "The relative bias",
               .caption = "All numbers start at zero; heed positions --run DIR shows what a training made of them.",
               .learnt = "One trained number for each head and offset. Offsets beyond the ends share the last number."}},
    {.name = "t5",
     .unit = kHeads,
     .clips = true,
     .about =
         "Each head adds to a score a trained number for the bucket that the offset falls into: every small offset has one "
         "of its own, larger ones share by powers. So near keys are seen one by one and, as the distance grows, ever more "
         "of them alike. It cannot tell apart the offsets of a bucket, among them all beyond the largest distance; and "
         "what the tokens say does not change it.",
     .numbers = &TableOfScheme,
     .draw = &BucketFigures,
     .words = {.subject = "T5's bias",
               .caption = "All numbers start at zero; heed positions --run DIR shows what a training made of them.",
               .learnt = "One trained number for each head and bucket. Offsets beyond the ends share the last number."}},
    {.name = "kerple",
     .unit = kHeads,
     .random = true,
     .about = "Each head takes from a score a trained rate times the logarithm of 1 plus a trained scale times the distance. A "
              "query loses sight of keys quickly at first and ever more slowly then, at each head's own pace, without end. "
              "Without causality it cannot tell left from right; no head can prefer a farther key to a nearer one, and none "
              "can find the first token.",
     .numbers = &BiasByOffset,
     .draw = &BiasFigures,
     .words = {.subject = "KERPLE's logarithmic bias",
               .caption = "Each head falls by a logarithm, with a rate and a scale that start at random.",
               .learnt = "Each head falls by a logarithm, with a trained rate and scale: nearly flat, or steep at first."}},
    {.name = "kerple_power",
     .unit = kHeads,
     .random = true,
     .about =
         "Each head takes from a score a trained scale times a trained power of the distance, up to its square. A query "
         "loses sight of keys ever more slowly where the power is below 1, in proportion where it is 1, as ALiBi does, and "
         "ever faster above. Without causality it cannot tell left from right; no head can prefer a farther key to a "
         "nearer one, and none can find the first token.",
     .numbers = &BiasByOffset,
     .draw = &BiasFigures,
     .words = {.subject = "KERPLE's power bias",
               .caption = "Each head falls by a power of the distance, which starts at random between 0 and 2.",
               .learnt = "Each head falls by a trained power of the distance: 1 is a straight line, as ALiBi's."}},
    {.name = "sandwich",
     .unit = kHeads,
     .about = "The product of two sinusoidal encodings, without the content, is added to a score; the first head has most of "
              "it. A query loses sight of keys in waves, on the whole by the logarithm of their distance, down to some 4,000 "
              "positions, and of farther ones no more. Nothing is trained. Without causality it cannot tell left from right, "
              "and none of its heads can find the first token.",
     .numbers = &BiasByOffset,
     .draw = &BiasFigures,
     .words = {.subject = "Sandwich's bias",
               .caption = "The product of two rows of sines and cosines, less that of a row with itself; heads have it divided "
                          "by 8(h + 1)/H."}},
    {.name = "fire",
     .unit = kHeads,
     .random = true,
     .about =
         "A small trained network turns the distance into a number for each head; the distance counts as a part of the way "
         "back to position 0, or to a threshold (512 at first) for queries that stand nearer. As the distance grows a query "
         "sees what the network makes of it, and the farther on it stands the wider the same curve is stretched, so that "
         "the first token always lies at its end. It cannot tell left from right without causality; within the threshold "
         "it cannot tell where in a text it is.",
     .numbers = &BiasByOffsetAndQuery,
     .draw = &FarQueryFigures,
     .words = {.subject = "FIRE's bias",
               .caption = "What the network of the start says of each offset, for a query at the end of the keys before it.",
               .learnt = "What the trained network says of each offset, for a query at the end of the keys before it."}},
    {.name = "sinusoidal_bias",
     .unit = kHeads,
     .about =
         "Each head adds to a score trained waves of the offset: cosines, which are alike on both sides, and sines, which "
         "are not. As the distance grows the bias wavers within bounds and never ends, so that far keys are not forgotten. "
         "Within the longest period it can tell all offsets apart; the first token is but the farthest, and what the "
         "tokens say does not change it.",
     .numbers = &BiasByOffset,
     .draw = &BiasFigures,
     .words = {.subject = "The sinusoidal bias",
               .caption = "All waves start at zero; heed positions --run DIR shows what a training made of them.",
               .learnt = "Trained cosines and sines of the offset: what is uneven about offset 0 tells left from right."}},
    {.name = "temperature",
     .unit = kHeads,
     .about =
         "Each head multiplies its scores by a trained number: how sharply it looks, 1 at first. The distance does nothing "
         "to a query, because this is no scheme of positions: it can tell no two orders apart, as if there were none, "
         "and is beside the others to be measured against.",
     .numbers = &Multipliers,
     .draw = &MultiplierFigures,
     .words = {.subject = "What the temperature makes of a score",
               .caption = "All heads start with a factor of 1, which changes nothing.",
               .learnt = "Each head has a trained factor: above 1 it looks more sharply, below 1 more evenly."}},
    {.name = "shaw",
     .unit = kHead,
     .clips = true,
     .random = true,
     .about = "A trained vector for the offset is added to the key (another to the value), so that a score depends on what the "
              "query holds and on how far away the key is. What a query does as the distance grows it decides by itself: "
              "each vector is looked for, or avoided. Offsets beyond the largest share a vector and cannot be told apart.",
     .numbers = &TableOfScheme,
     .draw = &VectorFigures},
    {.name = "transformer_xl",
     .unit = kHeads,
     .clips = true,
     .random = true,
     .about = "The query meets, beside the key, a trained projection of the sinusoids of the distance, and both have a trained "
              "vector added to the query for the purpose. So each query says for itself how much it cares for what is near or "
              "far, in waves over the distance, and differently to the left and to the right. Distances beyond the largest are "
              "one; and it cannot tell where in a text it is.",
     .numbers = &TermByOffset,
     .draw = &BiasFigures,
     .words = {.subject = "Transformer-XL's term of position",
               .caption = "What the offset adds to the score of one random query and key: it starts small, and another query "
                          "would see other curves.",
               .learnt =
                   "What the trained model adds to the score of one random query and key; another query would see others.",
               .label = "Added to the score"}},
    {.name = "deberta",
     .unit = kHeads,
     .clips = true,
     .random = true,
     .about =
         "The query meets a trained vector of the offset, and so does the key: two products beside that of the content. A "
         "token says for itself which offsets it looks for, and another from which it wants to be seen; what happens as the "
         "distance grows is learnt offset by offset, on either side. Offsets beyond the largest share their vectors and "
         "cannot be told apart; nor can it tell where in a text it is.",
     .numbers = &TermByOffset,
     .draw = &BiasFigures,
     .words = {.subject = "DeBERTa's terms of position",
               .caption = "What the offset adds to the score of one random query and key: vectors start independent, so that "
                          "neighbours have nothing in common yet.",
               .learnt =
                   "What the trained model adds to the score of one random query and key; another query would see others.",
               .label = "Added to the score"}},
    {.name = "cope",
     .unit = kHeads,
     .clips = true,
     .random = true,
     .about =
         "How far back a key is for a query is the number of keys from it on that the query looks for, each counted by the "
         "sigmoid of its score; the query meets a trained vector of that number. So a query can count words, or marks, and "
         "not steps: as the distance grows nothing happens until another key that it looks for goes by. Keys with nothing "
         "of interest between them cannot be told apart, nor those behind the last position.",
     .numbers = &TermByOffset,
     .draw = &BiasFigures,
     .words = {.subject = "The contextual term of position",
               .caption = "All vectors start at zero; heed positions --run DIR shows what a training made of them.",
               .learnt = "What the trained model adds to the score of one random query and key, where all keys from it on are "
                         "the same; other keys between would move the curve.",
               .label = "Added to the score"}},
    {.name = "swin",
     .unit = kHeads,
     .square = true,
     .random = true,
     .about =
         "Tokens stand in a window of an image, and each head adds to a score a trained number for the rows and columns from "
         "key to query. What a query does as the distance grows is what it has learnt, offset by offset and on every side, "
         "whatever the tokens say. Within the window no two offsets are alike, but beyond it there are no numbers; and it "
         "cannot tell where in the window a query stands.",
     .make = &MakeSwin,
     .numbers = &TableOfScheme,
     .draw = &WindowFigures,
     .words = {.subject = "Swin's bias along a row",
               .caption = "All numbers start as noise with a standard deviation of 0.02.",
               .learnt = "One trained number for each head and offset, here those of the query's own row."}},
    {.name = "swin_v2",
     .unit = kHeads,
     .square = true,
     .random = true,
     .about =
         "Tokens stand in a window of an image, and a small trained network turns the rows and columns from key to query, both "
         "on a logarithmic scale, into a number between 0 and 16 that each head adds to a score. So near offsets are seen one "
         "by one and, as the distance grows, neighbours get ever more alike. The network goes on to windows larger than those "
         "of the training; it cannot tell where in the window a query stands, and what the tokens say does not change it.",
     .make = &MakeSwinV2,
     .numbers = &TableOfScheme,
     .draw = &LogarithmicFigures,
     .words = {.subject = "Swin V2's bias along a row",
               .caption = "What the network of the start says of each offset: near 8, the middle of 0 and 16.",
               .learnt = "What the trained network says of each offset, here those of the query's own row."}}};

}  // namespace

std::vector<std::string> PictureNames() {
  std::vector<std::string> names;
  names.reserve(std::size(kPortraits));
  for (const Portrait& portrait : kPortraits) names.emplace_back(portrait.name);
  return names;
}

const Portrait* FindPortrait(const std::string& scheme) {
  const auto* const found = std::ranges::find(kPortraits, scheme, &Portrait::name);
  return found == std::end(kPortraits) ? nullptr : found;
}

const Portrait& PortraitOf(const std::string& scheme) {
  if (scheme == "none") throw InvalidArgument("scheme: none has no numbers to draw");
  const Portrait* found = FindPortrait(scheme);
  if (found != nullptr) return *found;
  throw InvalidArgument(fmt::format("scheme: '{}' is unknown; expected one of {}", scheme, fmt::join(PictureNames(), ", ")));
}

}  // namespace heed::lab
