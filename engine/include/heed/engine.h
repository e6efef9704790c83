// All public headers of the engine.
#ifndef HEED_ENGINE_H_
#define HEED_ENGINE_H_

#include "heed/attention.h"
#include "heed/attention_check.h"
#include "heed/cache.h"
#include "heed/dropout.h"
#include "heed/gated_delta.h"
#include "heed/linear_attention.h"
#include "heed/log_sum_exp.h"
#include "heed/machine.h"
#include "heed/option_names.h"
#include "heed/packed_matrix.h"
#include "heed/portable_math.h"
#include "heed/positions.h"
#include "heed/rotary.h"
#include "heed/score_program.h"
#include "heed/shown_name.h"
#include "heed/table.h"
#include "heed/task_observer.h"
#include "heed/utf8.h"

#endif  // HEED_ENGINE_H_
