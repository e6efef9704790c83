/* The C header as a C program uses it: forward, backward and decoding, and what is refused. C99, without extensions. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "heed/heed.h"

static int faults = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "not so: %s (%s)\n", what, heed_message());
  ++faults;
}

enum { kSteps = 3, kWidth = 2 };

static const heed_array kAbsent = {0};

static heed_array rows(const void* data, int64_t steps) { return heed_contiguous(data, 1, 1, steps, kWidth); }

static double sum_of_outputs(const heed_attention* attention, const double* q, const double* k, const double* v) {
  double out[kSteps * kWidth], sum = 0;
  int i;
  expect(heed_forward(attention, HEED_FLOAT64, rows(q, kSteps), rows(k, kSteps), rows(v, kSteps), rows(out, kSteps), kAbsent) ==
             HEED_OK,
         "forward in double");
  for (i = 0; i < kSteps * kWidth; ++i) sum += out[i];
  return sum;
}

static void gradients(void) {
  double q[] = {1, 0, 0.5, 1, -1, 2}, k[] = {0, 1, 1, 1, 2, -1}, v[] = {1, 2, 3, 4, 5, 6};
  double slopes[] = {0.25}, relative_bias[] = {0.5, 0, -0.5}, d_relative_bias[3], d_slopes[1];
  double out[kSteps * kWidth], lse[kSteps], ones[] = {1, 1, 1, 1, 1, 1};
  double d_q[kSteps * kWidth], d_k[kSteps * kWidth], d_v[kSteps * kWidth];
  const double step = 1e-6;
  double above, below;
  heed_attention attention = heed_attention_default();
  heed_gradients wanted = {0};
  attention.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  attention.slopes = slopes;
  attention.relative_bias = relative_bias;
  attention.max_distance = 1;
  expect(heed_forward(&attention, HEED_FLOAT64, rows(q, kSteps), rows(k, kSteps), rows(v, kSteps), rows(out, kSteps),
                      heed_contiguous(lse, 1, 1, kSteps, 1)) == HEED_OK,
         "forward with lse");
  expect(out[0] == 1 && out[1] == 2, "the first query returns the first value");
  wanted.q = rows(d_q, kSteps);
  wanted.k = rows(d_k, kSteps);
  wanted.v = rows(d_v, kSteps);
  wanted.relative_bias = d_relative_bias;
  wanted.slopes = d_slopes;
  expect(heed_backward(&attention, HEED_FLOAT64, rows(q, kSteps), rows(k, kSteps), rows(v, kSteps), rows(out, kSteps),
                       heed_contiguous(lse, 1, 1, kSteps, 1), rows(ones, kSteps), &wanted) == HEED_OK,
         "backward");
#define HEED_EXPECT_GRADIENT(number, gradient) \
  number += step;                              \
  above = sum_of_outputs(&attention, q, k, v); \
  number -= 2 * step;                          \
  below = sum_of_outputs(&attention, q, k, v); \
  number += step;                              \
  expect(fabs((above - below) / (2 * step) - (gradient)) < 1e-7, "the gradient of " #number)
  HEED_EXPECT_GRADIENT(q[4], d_q[4]);
  HEED_EXPECT_GRADIENT(k[3], d_k[3]);
  HEED_EXPECT_GRADIENT(v[2], d_v[2]);
  HEED_EXPECT_GRADIENT(slopes[0], d_slopes[0]);
  HEED_EXPECT_GRADIENT(relative_bias[0], d_relative_bias[0]);
}

enum { kNumbers = 16 * 8 };

/* Numbers that bfloat16 has, from -spread to spread. */
static void fill(float* numbers, uint16_t* halves, int factor, float spread) {
  int i;
  for (i = 0; i < kNumbers; ++i) {
    uint32_t bits;
    numbers[i] = (float)(i * factor % 17 - 8) / 8 * spread;
    memcpy(&bits, &numbers[i], sizeof bits);
    halves[i] = (uint16_t)(bits >> 16);
  }
}

static double difference(const uint16_t* halves, const float* numbers) {
  double sum = 0;
  int i;
  for (i = 0; i < kNumbers; ++i) {
    const uint32_t bits = (uint32_t)halves[i] << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    sum += fabs(number - numbers[i]);
  }
  return sum;
}

/* Of large scores in bfloat16, whose gradients need what rounding took from the results. */
static void gradients_by_name(void) {
  float q[kNumbers], k[kNumbers], v[kNumbers], d_out[kNumbers], out[kNumbers], d_q[kNumbers], lse[16], correction[16];
  uint16_t q16[kNumbers], k16[kNumbers], v16[kNumbers], d_out16[kNumbers], out16[kNumbers], remainder[kNumbers],
      exact[kNumbers], rounded[kNumbers];
#define HEED_ROWS(numbers) heed_contiguous(numbers, 1, 1, 16, 8)
#define HEED_ONE_EACH(numbers) heed_contiguous(numbers, 1, 1, 16, 1)
  heed_gradients wanted = {0};
  heed_forward_arrays forward = heed_forward_arrays_default();
  heed_backward_arrays backward = heed_backward_arrays_default();
  fill(q, q16, 5, 4), fill(k, k16, 7, 4), fill(v, v16, 3, 1), fill(d_out, d_out16, 11, 1);
  wanted.q = HEED_ROWS(d_q);
  expect(heed_forward(NULL, HEED_FLOAT32, HEED_ROWS(q), HEED_ROWS(k), HEED_ROWS(v), HEED_ROWS(out), HEED_ONE_EACH(lse)) ==
                 HEED_OK &&
             heed_backward(NULL, HEED_FLOAT32, HEED_ROWS(q), HEED_ROWS(k), HEED_ROWS(v), HEED_ROWS(out), HEED_ONE_EACH(lse),
                           HEED_ROWS(d_out), &wanted) == HEED_OK,
         "both passes in float");
  forward.q = HEED_ROWS(q16), forward.k = HEED_ROWS(k16), forward.v = HEED_ROWS(v16), forward.out = HEED_ROWS(out16);
  forward.lse = HEED_ONE_EACH(lse), forward.correction = HEED_ONE_EACH(correction), forward.remainder = HEED_ROWS(remainder);
  expect(heed_forward_by_name(NULL, HEED_BFLOAT16, &forward) == HEED_OK, "forward by name");
  backward.q = forward.q, backward.k = forward.k, backward.v = forward.v, backward.out = forward.out;
  backward.lse = forward.lse, backward.d_out = HEED_ROWS(d_out16);
  wanted.q = HEED_ROWS(rounded);
  expect(heed_backward_by_name(NULL, HEED_BFLOAT16, &backward, &wanted) == HEED_OK, "backward by name");
  backward.correction = forward.correction, backward.remainder = forward.remainder;
  wanted.q = HEED_ROWS(exact);
  expect(heed_backward_by_name(NULL, HEED_BFLOAT16, &backward, &wanted) == HEED_OK, "backward with the remainder");
  expect(difference(exact, d_q) < difference(rounded, d_q) / 2, "the remainder gives gradients their digits back");
  backward.d_lse = HEED_ONE_EACH(lse);
  wanted.q = HEED_ROWS(rounded);
  expect(heed_backward_by_name(NULL, HEED_BFLOAT16, &backward, &wanted) == HEED_OK && memcmp(exact, rounded, sizeof exact) != 0,
         "a gradient of lse");
  forward.struct_bytes = 8;
  expect(heed_forward_by_name(NULL, HEED_BFLOAT16, &forward) == HEED_INVALID_ARGUMENT, "arrays that nobody began are refused");
  expect(strstr(heed_message(), "arrays: struct_bytes is not sizeof(heed_forward_arrays)") != NULL, "and the message says why");
  expect(heed_backward_by_name(NULL, HEED_BFLOAT16, NULL, &wanted) == HEED_INVALID_ARGUMENT, "no arrays");
#undef HEED_ROWS
#undef HEED_ONE_EACH
}

static void decoding(void) {
  const float q[] = {1, 0, 0.5f, 1, -1, 2}, k[] = {0, 1, 1, 1, 2, -1}, v[] = {1, 2, 3, 4, 5, 6};
  float whole[kSteps * kWidth], out[kWidth];
  heed_attention attention = heed_attention_default();
  heed_cache* cache = NULL;
  int i, c;
  attention.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  expect(heed_forward(&attention, HEED_FLOAT32, rows(q, kSteps), rows(k, kSteps), rows(v, kSteps), rows(whole, kSteps),
                      kAbsent) == HEED_OK,
         "the whole pass");
  expect(heed_cache_create(HEED_FLOAT32, 1, 1, kWidth, kWidth, 0, &cache) == HEED_OK, "a cache");
  for (i = 0; i < kSteps; ++i) {
    expect(heed_cache_append(cache, rows(k + i * kWidth, 1), rows(v + i * kWidth, 1)) == HEED_OK, "append");
    expect(heed_cache_attend(cache, &attention, rows(q + i * kWidth, 1), rows(out, 1), kAbsent) == HEED_OK, "attend");
    for (c = 0; c < kWidth; ++c) expect(fabsf(out[c] - whole[i * kWidth + c]) < 1e-6f, "a step is a row of the whole pass");
  }
  expect(heed_cache_length(cache) == kSteps, "the length of the cache");
  expect(heed_cache_truncate(cache, 1) == HEED_OK && heed_cache_length(cache) == 1, "truncate");
  expect(heed_cache_truncate(cache, 2) == HEED_INVALID_ARGUMENT, "no tokens come back");
  expect(heed_cache_attend(cache, &attention, heed_contiguous(q, 1, 1, 2, 3), rows(out, 1), kAbsent) == HEED_INVALID_ARGUMENT &&
             strncmp(heed_message(), "q: expected", 11) == 0,
         "the message names the queries, not the keys of the cache");
  heed_cache_destroy(cache);
  heed_cache_destroy(NULL);
}

static void refusals(void) {
  float numbers[kSteps * kWidth] = {0}, out[kSteps * kWidth] = {7};
  const heed_array x = rows(numbers, kSteps);
  heed_attention attention = heed_attention_default();
  heed_model* model = NULL;
  heed_cache* cache = NULL;
  heed_gradients wanted = {0};
  double one = 1;
  expect(heed_forward(NULL, HEED_FLOAT32, x, rows(numbers, 2), x, rows(out, kSteps), kAbsent) == HEED_INVALID_ARGUMENT,
         "keys and values of other lengths are refused");
  expect(strstr(heed_message(), "[1, 1, 3, 2]") != NULL, "the message shows shapes");
  expect(out[0] == 7, "nothing was written");
  attention.causal = 7;
  expect(heed_forward(&attention, HEED_FLOAT32, x, x, x, rows(out, kSteps), kAbsent) == HEED_INVALID_ARGUMENT,
         "an unknown order");
  attention.struct_bytes = 8;
  expect(heed_forward(&attention, HEED_FLOAT32, x, x, x, rows(out, kSteps), kAbsent) == HEED_INVALID_ARGUMENT,
         "options that were not made by heed_attention_default are refused");
  expect(heed_forward(NULL, 9, x, x, x, rows(out, kSteps), kAbsent) == HEED_INVALID_ARGUMENT, "an unknown type");
  expect(heed_backward(NULL, HEED_FLOAT32, x, x, x, x, kAbsent, x, NULL) == HEED_INVALID_ARGUMENT, "no gradients");
  wanted.slopes = out;
  expect(heed_backward(NULL, HEED_FLOAT32, x, x, x, x, kAbsent, x, &wanted) == HEED_INVALID_ARGUMENT, "gradients of no slopes");
  expect(heed_cache_create(HEED_FLOAT16, 1, 1, 1, 1, 0, &cache) == HEED_INVALID_ARGUMENT, "a cache of 16 bits");
  expect(heed_cache_append(NULL, x, x) == HEED_INVALID_ARGUMENT, "no cache");
  expect(heed_model_open(NULL, &model) == HEED_INVALID_ARGUMENT, "no folder");
  expect(heed_model_open("/nowhere", &model) == HEED_FILE_ERROR, "a folder that is not there");
  expect(strstr(heed_message(), "/nowhere/config.json") != NULL, "the message names the file");
  heed_model_close(NULL);
  expect(heed_model_columns(NULL) == 0 && heed_model_outputs(NULL) == 0 && heed_model_category(NULL, 0, 0) == NULL &&
             heed_model_answers(NULL, 3) == 0,
         "sizes of no model");
  expect(heed_model_column(NULL, 0) == NULL && heed_model_class(NULL, 0) == NULL, "names of no model");
  expect(heed_model_predict(NULL, &one, 1, 1, 1, NULL, NULL, NULL, &one, 1, NULL, NULL) == HEED_INVALID_ARGUMENT,
         "answers of no model");
  expect(strstr(heed_message(), "model: NULL was passed") != NULL, "the message names the argument");
}

/* Threads of this process; 0 where nobody tells. */
static int threads(void) {
  char line[256];
  int count = 0;
  FILE* status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof line, status) != NULL)
    if (sscanf(line, "Threads: %d", &count) == 1) break;
  if (status != NULL) fclose(status);
  return count;
}

static void chosen_threads(void) {
  enum { kMany = 64 };
  static float x[kMany * kMany], one[kMany * kMany], four[kMany * kMany];
  const heed_array in = heed_contiguous(x, 1, 8, kMany, 8);
  int i, before;
  for (i = 0; i < kMany * kMany; ++i) x[i] = (float)(i % 17) / 8;
  expect(heed_set_threads(-1) == HEED_INVALID_ARGUMENT && strstr(heed_message(), "threads: expected 0 to 4096") != NULL,
         "fewer threads than none");
  expect(heed_set_threads(INT32_MAX) == HEED_INVALID_ARGUMENT, "more threads than any machine has");
  expect(heed_set_threads(1) == HEED_OK, "one thread");
  expect(heed_forward(NULL, HEED_FLOAT32, in, in, in, heed_contiguous(one, 1, 8, kMany, 8), kAbsent) == HEED_OK, "with one");
  before = threads();
  expect(heed_set_threads(4) == HEED_OK, "four threads");
  expect(heed_forward(NULL, HEED_FLOAT32, in, in, in, heed_contiguous(four, 1, 8, kMany, 8), kAbsent) == HEED_OK, "with four");
  expect(before == 0 || threads() == before + 3, "three threads beside the calling one");
  expect(memcmp(one, four, sizeof one) == 0, "the same bits");
  expect(heed_set_threads(0) == HEED_OK, "all processors");
}

int main(void) {
  chosen_threads();
  gradients();
  gradients_by_name();
  decoding();
  refusals();
  expect(strcmp(heed_version(), "") != 0, "a version");
  return faults == 0 ? 0 : 1;
}
