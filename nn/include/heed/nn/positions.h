// Positional encodings: modules inside attention or added to its input, and all of them by name.
#ifndef HEED_NN_POSITIONS_H_
#define HEED_NN_POSITIONS_H_

#include "heed/nn/attention_position.h"
#include "heed/nn/position_choice.h"
#include "heed/nn/positional_encoding.h"
#include "heed/nn/random_fourier.h"
#include "heed/nn/rotary.h"
#include "heed/nn/rotations.h"
#include "heed/nn/score_functions.h"
#include "heed/nn/score_terms.h"
#include "heed/nn/window_biases.h"
#include "heed/positions.h"
#include "heed/rotary.h"

#endif  // HEED_NN_POSITIONS_H_
