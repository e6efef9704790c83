// Everything that users of heed with LibTorch include.
#ifndef HEED_NN_H_
#define HEED_NN_H_

#include "heed/nn/attention.h"
#include "heed/nn/attention_models.h"
#include "heed/nn/cache.h"
#include "heed/nn/cloneable.h"
#include "heed/nn/decomposable_attention.h"
#include "heed/nn/distributed.h"
#include "heed/nn/dropout.h"
#include "heed/nn/encoders.h"
#include "heed/nn/intra_temporal_attention.h"
#include "heed/nn/linear_attention.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/positional_encoding.h"
#include "heed/nn/positions.h"
#include "heed/nn/rotary.h"
#include "heed/nn/safetensors.h"
#include "heed/nn/structured_attention.h"
#include "heed/nn/transformer.h"
#include "heed/nn/transformer_decoder.h"
#include "heed/nn/weights.h"

#endif  // HEED_NN_H_
