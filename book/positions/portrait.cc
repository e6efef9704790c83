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
         "Sinusoidal encodings add to each position's input a row of sines and cosines, whose frequencies fall from column to "
         "column. Moving further on turns the row by angles that depend on the shift alone. The product of two rows falls in "
         "waves as their distance grows, and is the same on both sides; only projections of the rows can tell left from right. "
         "Within the longest period no two positions are alike. Rows beyond those of the training are unfamiliar to a model.",
     .draw = &SinusoidalFigures},
    {.name = "learned",
     .unit = kEncoding,
     .random = true,
     .about = "A learned table adds a trained row to the input of each position. It knows nothing of distances at first: every "
              "row has to learn which rows are near. Within the table all positions can be told apart. Beyond the last "
              "position of the training there is no row; when the last row is repeated, all these positions are alike.",
     .rows = &LearnedRows,
     .draw = &LearnedFigures},
    {.name = "random_fourier",
     .unit = kEncoding,
     .multiple = 2,
     .random = true,
     .about = "Random Fourier features add to the input of each position, a real number, a row of cosines and sines, whose "
              "frequencies are drawn once at random. As the distance of two positions grows, the product of their rows falls "
              "along a bell curve, whose width the scale of the frequencies decides. Then it wavers about zero, less so for "
              "wider encodings. It is the same on both sides. Positions much nearer than the bell's width look alike; "
              "positions much farther all look equally far.",
     .rows = &RandomFourierRows,
     .draw = &RandomFourierFigures},
    {.name = "rotary",
     .unit = kHead,
     .multiple = 2,
     .about = "Rotary positions turn queries and keys, pair by pair of their columns, by angles in proportion to their "
              "positions. Their product then depends on the offset of the key and on the content of both. As the distance "
              "grows a query meets each key at other angles, fast pairs first, and the score wavers within bounds: far keys "
              "never vanish. A query cannot tell where in a text it is, and finds the first token only as the farthest. Angles "
              "beyond those of the training are unfamiliar.",
     .draw = &RotaryFigures},
    {.name = "axial_rotary",
     .unit = kHead,
     .multiple = 4,
     .square = true,
     .about = "Axial rotary positions are for tokens in rows and columns, such as the patches of an image. They turn the first "
              "half of the columns of queries and keys by the row and the second half by the column. A product then depends on "
              "both offsets and on the content. As the distance along one axis grows, half of the score wavers within bounds "
              "and the other half stays: a token in line with the query keeps half of its score at any distance. A query "
              "cannot tell where in the image it is, and no pair of columns depends on both axes.",
     .make = &MakeAxialRotary,
     .draw = &AxialRotaryFigures},
    {.name = "xpos",
     .unit = kHead,
     .multiple = 2,
     .about = "xPos turns queries and keys as rotary positions do, and fades each pair of columns with the distance: at 512 "
              "positions the fastest pair keeps 0.29 of its size, the slowest nearly all. So the score of a far key comes from "
              "the slow pairs. Use it with causal attention, because towards later keys the products would grow. Like rotary "
              "positions it cannot tell where in a text a query is.",
     .numbers = &PairsByDistance,
     .draw = &FadingFigures},
    {.name = "alibi",
     .unit = kHeads,
     .about = "ALiBi subtracts from a score the distance times the slope of the head, and trains nothing. A query loses sight "
              "of keys in proportion to their distance, in steep heads after a few positions, in flat ones after hundreds. "
              "Without causality it cannot tell left from right. No head can prefer a farther key to a nearer one, and none "
              "can find the first token.",
     .draw = &AlibiFigures},
    {.name = "relative",
     .unit = kHeads,
     .clips = true,
     .about = "A relative bias adds to a score a trained number for the head and the offset of the key from the query. As the "
              "distance grows a query sees a number for each offset on either side, the same for all tokens. Offsets beyond "
              "the largest share its number, so it cannot tell far from farther.",
     .numbers = &TableOfScheme,
     .draw = &BiasFigures,
     .words = {.subject = "The relative bias",
               .caption = "All numbers start at zero; heed positions --run DIR shows what a training made of them.",
               .learnt = "One trained number for each head and offset. Offsets beyond the ends share the last number."}},
    {.name = "t5",
     .unit = kHeads,
     .clips = true,
     .about = "T5's bias adds to a score a trained number for the head and the bucket of the offset. Every small offset has "
              "its own bucket; larger offsets share buckets that grow by powers. So a query sees near keys one by one and, as "
              "the distance grows, more and more of them alike. It cannot tell apart the offsets of a bucket, nor those beyond "
              "the largest distance. The bias is the same for all tokens.",
     .numbers = &TableOfScheme,
     .draw = &BucketFigures,
     .words = {.subject = "T5's bias",
               .caption = "All numbers start at zero; heed positions --run DIR shows what a training made of them.",
               .learnt = "One trained number for each head and bucket. Offsets beyond the ends share the last number."}},
    {.name = "kerple",
     .unit = kHeads,
     .random = true,
     .about = "KERPLE subtracts from a score a trained rate times the logarithm of 1 plus a trained scale times the distance. "
              "A query loses sight of keys quickly at first, then ever more slowly and without end, at a pace that each head "
              "trains. Without causality it cannot tell left from right. No head can prefer a farther key to a nearer one, and "
              "none can find the first token.",
     .numbers = &BiasByOffset,
     .draw = &BiasFigures,
     .words = {.subject = "KERPLE's logarithmic bias",
               .caption = "Each head falls by a logarithm, with a rate and a scale that start at random.",
               .learnt = "Each head falls by a logarithm, with a trained rate and scale: nearly flat, or steep at first."}},
    {.name = "kerple_power",
     .unit = kHeads,
     .random = true,
     .about = "KERPLE's power subtracts from a score a trained scale times a trained power of the distance, at most its "
              "square. A query loses sight of keys ever more slowly with a power below 1, in proportion with the power 1, as "
              "ALiBi does, and ever faster with a larger one. Without causality it cannot tell left from right. No head can "
              "prefer a farther key to a nearer one, and none can find the first token.",
     .numbers = &BiasByOffset,
     .draw = &BiasFigures,
     .words = {.subject = "KERPLE's power bias",
               .caption = "Each head falls by a power of the distance, which starts at random between 0 and 2.",
               .learnt = "Each head falls by a trained power of the distance: 1 is a straight line, as ALiBi's."}},
    {.name = "sandwich",
     .unit = kHeads,
     .about = "Sandwich adds to a score the product of two sinusoidal encodings without content; the first head gets most of "
              "it. A query loses sight of keys in waves, on the whole by the logarithm of their distance, up to some 4,000 "
              "positions; beyond that the bias falls no further. It trains nothing. Without causality it cannot tell left from "
              "right, and no head can find the first token.",
     .numbers = &BiasByOffset,
     .draw = &BiasFigures,
     .words = {.subject = "Sandwich's bias",
               .caption = "The product of two rows of sines and cosines, less that of a row with itself; heads have it divided "
                          "by 8(h + 1)/H."}},
    {.name = "fire",
     .unit = kHeads,
     .random = true,
     .about = "FIRE's small trained network turns the distance into a number for each head. It takes the distance as a share "
              "of the way back to position 0, or of a threshold (512 at first) for queries within it. For queries further on "
              "the same curve is stretched wider, so that the first token always lies at its end. Without causality it cannot "
              "tell left from right. Within the threshold it cannot tell where in a text a query is.",
     .numbers = &BiasByOffsetAndQuery,
     .draw = &FarQueryFigures,
     .words = {.subject = "FIRE's bias",
               .caption = "The untrained network's number for each offset, for a query at the end of the keys before it.",
               .learnt = "The trained network's number for each offset, for a query at the end of the keys before it."}},
    {.name = "sinusoidal_bias",
     .unit = kHeads,
     .about = "A sinusoidal bias adds to a score trained waves of the offset: cosines, which are alike on both sides, and "
              "sines, which are not. As the distance grows the bias wavers within bounds and never ends, so far keys are not "
              "forgotten. Within the longest period it can tell all offsets apart, and finds the first token only as the "
              "farthest. The bias is the same for all tokens.",
     .numbers = &BiasByOffset,
     .draw = &BiasFigures,
     .words = {.subject = "The sinusoidal bias",
               .caption = "All waves start at zero; heed positions --run DIR shows what a training made of them.",
               .learnt = "Trained cosines and sines of the offset: the difference between the two sides of offset 0 tells left "
                         "from right."}},
    {.name = "temperature",
     .unit = kHeads,
     .about = "A temperature multiplies the scores of each head by a trained number, 1 at first, which decides how sharply the "
              "head looks. It does not depend on the distance: it is no scheme of positions and cannot tell any two orders "
              "apart. Compare the other schemes with it.",
     .numbers = &Multipliers,
     .draw = &MultiplierFigures,
     .words = {.subject = "What the temperature makes of a score",
               .caption = "All heads start with a factor of 1, which changes nothing.",
               .learnt = "Each head has a trained factor: above 1 it looks more sharply, below 1 more evenly."}},
    {.name = "shaw",
     .unit = kHead,
     .clips = true,
     .random = true,
     .about = "Shaw's scheme adds a trained vector for the offset to the key, and another to the value. A score then depends "
              "on the content of the query and on the distance of the key: a query can look for the vector of any offset, or "
              "avoid it. Offsets beyond the largest share a vector and cannot be told apart.",
     .numbers = &TableOfScheme,
     .draw = &VectorFigures},
    {.name = "transformer_xl",
     .unit = kHeads,
     .clips = true,
     .random = true,
     .about = "Transformer-XL multiplies the query with the key and with a trained projection of the sinusoids of the "
              "distance, and adds a trained vector to the query in both products. So each query decides how much it looks near "
              "or far, in waves over the distance, and differently to the left and to the right. Distances beyond the largest "
              "are alike, and it cannot tell where in a text a query is.",
     .numbers = &TermByOffset,
     .draw = &BiasFigures,
     .words = {.subject = "Transformer-XL's term of position",
               .caption = "The addition to the score of one random query and key, by offset: it starts small; another query "
                          "would see other curves.",
               .learnt =
                   "What the trained model adds to the score of one random query and key; another query would see others.",
               .label = "Added to the score"}},
    {.name = "deberta",
     .unit = kHeads,
     .clips = true,
     .random = true,
     .about = "DeBERTa multiplies the query with a trained vector of the offset, and the key with another: two products beside "
              "that of the content. So a token decides at which distances it looks, and from which distances it is seen, with "
              "a vector for each offset on either side. Offsets beyond the largest share their vectors and cannot be told "
              "apart, and it cannot tell where in a text a query is.",
     .numbers = &TermByOffset,
     .draw = &BiasFigures,
     .words = {.subject = "DeBERTa's terms of position",
               .caption = "The addition to the score of one random query and key, by offset: vectors start independent, so "
                          "neighbouring offsets differ.",
               .learnt =
                   "What the trained model adds to the score of one random query and key; another query would see others.",
               .label = "Added to the score"}},
    {.name = "cope",
     .unit = kHeads,
     .clips = true,
     .random = true,
     .about = "CoPE counts how many keys, from a key on to the query, the query looks for; each counts with the sigmoid of its "
              "score. It multiplies the query with a trained vector of that number. So a query can count words or punctuation "
              "marks instead of steps: as the distance grows the count changes only at keys that the query looks for. Keys "
              "with no such key in "
              "between cannot be told apart, nor those beyond the last position.",
     .numbers = &TermByOffset,
     .draw = &BiasFigures,
     .words = {.subject = "The contextual term of position",
               .caption = "All vectors start at zero; heed positions --run DIR shows what a training made of them.",
               .learnt = "The trained model's addition to the score of one random query and key, with the same key repeated "
                         "from there on; other keys in between would move the curve.",
               .label = "Added to the score"}},
    {.name = "swin",
     .unit = kHeads,
     .square = true,
     .random = true,
     .about = "Swin's bias is for tokens in a window of an image. Each head adds to a score a trained number for the rows and "
              "columns from key to query. As the distance grows a query sees a number for each offset on every side, the same "
              "for all tokens. Within the window "
              "no two offsets are alike; beyond it there are no numbers. It cannot tell where in the window a query stands.",
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
     .about = "Swin V2's bias is for tokens in a window of an image. A small trained network turns the rows and columns from "
              "key to query, both on a logarithmic scale, into a number between 0 and 16 for each head, which is added to the "
              "score. So it sees near offsets one by one and, as the distance grows, neighbours more and more alike. The "
              "network also computes larger windows than those of the training. It cannot tell where in the window a query "
              "stands, and the bias is the same for all tokens.",
     .make = &MakeSwinV2,
     .numbers = &TableOfScheme,
     .draw = &LogarithmicFigures,
     .words = {.subject = "Swin V2's bias along a row",
               .caption = "The untrained network's number for each offset: near 8, the middle of 0 and 16.",
               .learnt = "The trained network's number for each offset of the query's own row."}}};

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
