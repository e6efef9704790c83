// How the weights of the laboratory's models start: every rule, by its name.
//
// The rules see embeddings, learned positions and linear layers, in the order of the module's modules(); convolutions,
// recurrent cells and what positional schemes train inside of attention start as their own modules start them, but for what a
// rule says.
#ifndef HEED_LAB_TRAINING_INITIALISATION_H_
#define HEED_LAB_TRAINING_INITIALISATION_H_

#include <cstdint>

#include <torch/nn/module.h>

namespace heed::lab {

// 0.02 * sqrt(768 / width). GPT-2's 0.02 (Radford et al. 2019, section 2.3) suits its width of 768; a row of a narrower matrix
// keeps its length when entries grow as widths shrink. With less, attention starts so even that a short training hardly leaves
// it. GPT-2's smaller start of the projections that end a residual branch is left out: stacks of a few layers do not need it.
double InitialDeviation(int64_t width);

// Four times as much, of what enters the first layer: beside it the sums that later layers add are small, and a step of the
// optimiser turns it by less.
double EmbeddingDeviation(int64_t width);

// Linear layers and learned positions N(0, InitialDeviation(width)), embeddings N(0, embeddings), biases 0, from PyTorch's
// default generator. docs/study.md tells what was measured to choose this rule.
void InitialiseByWidth(torch::nn::Module& module, int64_t width, double embeddings);

// Every matrix N(0, 1 / its inputs), so that a linear layer keeps the length of a random row (LeCun et al. 1998, "Efficient
// BackProp", section 4.6), embeddings and learned positions N(0, 1), biases 0; Shaw's vectors N(0, 1 / their features). Draws
// from the seed alone.
void InitialiseByInputs(torch::nn::Module& module, uint64_t seed);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_INITIALISATION_H_
