/* heed for C and for languages that call C: attention forward, backward and decoding, and models of `heed train` and `heed
   study`. C99.

   Calls return a status and throw nothing; heed_message() names the argument, says what was expected and gives the shapes. A
   call that fails writes nothing, except with HEED_FAILED. The caller owns arrays; heed owns heed_cache and heed_model until
   you destroy or close them. Several threads may call at once, each with its own caches. Options have the meaning of
   heed/attention.h. Statuses and choices are numbers of 32 bits in every language. */
#ifndef HEED_HEED_H_
#define HEED_HEED_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HEED_C_API __attribute__((visibility("default")))
#else
#define HEED_C_API
#endif
/* Tells gcc that the call does not read the memory that the pointer names, so that it does not warn of uninitialised memory for
 * results. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
#define HEED_C_ADDRESS_ONLY __attribute__((access(none, 1)))
#else
#define HEED_C_ADDRESS_ONLY
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t heed_status;
enum {
  HEED_OK = 0,
  HEED_INVALID_ARGUMENT = 1, /* an argument is outside the values for which the call is defined */
  HEED_FILE_ERROR = 2,       /* a file cannot be read or is malformed */
  HEED_OUT_OF_MEMORY = 3,
  HEED_FAILED = 4 /* anything else; outputs may hold any numbers */
};

/* The message of the calling thread's last failed call, in UTF-8; "" if none failed. Valid until the thread's next failed
   call. */
HEED_C_API const char* heed_message(void);
HEED_C_API const char* heed_version(void);

/* Lets the calls of all threads compute with so many threads from now on, the calling one included; 0: all processors that the
   process may use, as before the first call. Results have the same bits for any number. HEED_INVALID_ARGUMENT for fewer than
   0 or more than 4096. */
HEED_C_API heed_status heed_set_threads(int32_t threads);

typedef int32_t heed_type;
enum { HEED_FLOAT32 = 0, HEED_FLOAT64 = 1, HEED_BFLOAT16 = 2, HEED_FLOAT16 = 3 };

/* Element (i, j, k, l) lies at data[i * stride[0] + j * stride[1] + k * stride[2] + l * stride[3]]; strides are in elements and
   may be negative. Arrays of three dimensions use the first three. data NULL: absent, for optional arguments. */
typedef struct heed_array {
  void* data;
  int64_t extent[4];
  int64_t stride[4];
} heed_array;

/* A row-major array without gaps; give 1 as the last extent of arrays of three dimensions. */
HEED_C_API HEED_C_ADDRESS_ONLY heed_array heed_contiguous(const void* data, int64_t extent0, int64_t extent1, int64_t extent2,
                                                          int64_t extent3);

typedef int32_t heed_causal;
enum { HEED_CAUSAL_NONE = 0, HEED_CAUSAL_BOTTOM_RIGHT = 1, HEED_CAUSAL_TOP_LEFT = 2 };
typedef int32_t heed_empty_row;
enum { HEED_EMPTY_ROW_ZERO = 0, HEED_EMPTY_ROW_UNIFORM = 1 };

/* Start from heed_attention_default() and set options. NULL pointers mean absent options; a call reads the memory and keeps no
   pointer. Tables are float, in calls with HEED_FLOAT64 double. */
typedef struct heed_attention {
  size_t struct_bytes; /* sizeof(heed_attention) */
  double scale;        /* multiplies q.k; NaN: 1/sqrt(D) */
  double softcap;      /* 0: none */
  heed_causal causal;
  int64_t window_left, window_right; /* keys around a query's own position; -1: no bound. Query i has position i unless
                                        `causal` or query_positions set it */
  const int64_t* query_lengths;      /* [B] */
  const int64_t* key_lengths;        /* [B], or [B, Nq] with key_lengths_per_query */
  int key_lengths_per_query;
  const int64_t* query_positions; /* [Nq], for all batch rows; NULL: as `causal` aligns queries */
  const int64_t* key_positions;   /* [Nk] */
  heed_array bias;                /* added to the scores: extents of [B, Hq, Nq, Nk] or 1 */
  const void* relative_bias;      /* [Hq, 2 * max_distance + 1]: a number per head and clipped offset */
  int64_t max_distance;
  const void* slopes; /* [Hq]: ALiBi, -slope * |offset| */
  double dropout;     /* probability */
  uint64_t dropout_seed;
  heed_empty_row empty_row;
} heed_attention;

HEED_C_API heed_attention heed_attention_default(void);

/* q [B, Hq, Nq, D], k [B, Hkv, Nk, D], v [B, Hkv, Nk, Dv] -> out [B, Hq, Nq, Dv]; all have elements of `type`. lse [B, Hq, Nq]
   (float, for HEED_FLOAT64 double) may be absent; heed_backward needs it. attention NULL: the default. */
HEED_C_API heed_status heed_forward(const heed_attention* attention, heed_type type, heed_array q, heed_array k, heed_array v,
                                    heed_array out, heed_array lse);

/* heed_forward with its arrays by name; start from heed_forward_arrays_default(). remainder, in the shape of out with elements
   of HEED_BFLOAT16, only for 16-bit calls, and correction, like lse, may be absent: they hold what rounding took from out and
   lse, and heed_backward_by_name takes them. */
typedef struct heed_forward_arrays {
  size_t struct_bytes; /* sizeof(heed_forward_arrays) */
  heed_array q, k, v;
  heed_array out, lse, remainder, correction;
} heed_forward_arrays;

HEED_C_API heed_forward_arrays heed_forward_arrays_default(void);
HEED_C_API heed_status heed_forward_by_name(const heed_attention* attention, heed_type type, const heed_forward_arrays* arrays);

/* The gradients of sum(out * d_out); one whose data is NULL is not computed. Gradients of tables have the tables' types and
 * shapes. */
typedef struct heed_gradients {
  heed_array q, k, v;
  heed_array bias;
  void* relative_bias;
  void* slopes;
} heed_gradients;

/* With HEED_BFLOAT16 and HEED_FLOAT16 `out` is rounded: where scores are large, the gradients of q and k then lose up to ten
   times what rounding their own elements costs (docs/numerics.md, Precision). HEED_FLOAT32 arrays lose nothing, and neither do
   16-bit ones of heed_backward_by_name with remainder and correction. */
HEED_C_API heed_status heed_backward(const heed_attention* attention, heed_type type, heed_array q, heed_array k, heed_array v,
                                     heed_array out, heed_array lse, heed_array d_out, const heed_gradients* gradients);

/* heed_backward with its arrays by name; start from heed_backward_arrays_default(). The gradients are those of
   sum(out * d_out) + sum(lse * d_lse). d_lse, remainder and correction may be absent; the last two are those of
   heed_forward_by_name. */
typedef struct heed_backward_arrays {
  size_t struct_bytes; /* sizeof(heed_backward_arrays) */
  heed_array q, k, v;
  heed_array out, lse, d_out, d_lse;
  heed_array remainder, correction;
} heed_backward_arrays;

HEED_C_API heed_backward_arrays heed_backward_arrays_default(void);
HEED_C_API heed_status heed_backward_by_name(const heed_attention* attention, heed_type type,
                                             const heed_backward_arrays* arrays, const heed_gradients* gradients);

/* Keys and values of the tokens so far, in HEED_FLOAT32 or HEED_FLOAT64. Two threads must not use a cache at once. */
typedef struct heed_cache heed_cache;

/* capacity: tokens to allocate memory for; the cache grows beyond it. */
HEED_C_API heed_status heed_cache_create(heed_type type, int64_t batch, int64_t kv_heads, int64_t head_dim, int64_t value_dim,
                                         int64_t capacity, heed_cache** cache);
HEED_C_API void heed_cache_destroy(heed_cache* cache); /* NULL is fine */
HEED_C_API int64_t heed_cache_length(const heed_cache* cache);
/* Adds the tokens of k [B, Hkv, n, D] and v [B, Hkv, n, Dv]. */
HEED_C_API heed_status heed_cache_append(heed_cache* cache, heed_array k, heed_array v);
/* Forgets all tokens from `length` on. */
HEED_C_API heed_status heed_cache_truncate(heed_cache* cache, int64_t length);
/* Attention of q [B, Hq, Nq, D] over all tokens. With HEED_CAUSAL_BOTTOM_RIGHT the last query is the last token. */
HEED_C_API heed_status heed_cache_attend(const heed_cache* cache, const heed_attention* attention, heed_array q, heed_array out,
                                         heed_array lse);

/* A model that `heed train` or `heed study` wrote: a folder with config.json and model.safetensors. A model of a text, a
   network or counts, continues texts; a model of labelled sequences predicts. Calls for the other kind return
   HEED_INVALID_ARGUMENT. */
typedef struct heed_model heed_model;

HEED_C_API heed_status heed_model_open(const char* folder, heed_model** model);
HEED_C_API void heed_model_close(heed_model* model); /* NULL is fine */
/* Writes the most likely continuation of a prompt by so many characters, in UTF-8 with a NUL at its end, at most capacity bytes
   including the NUL; HEED_INVALID_ARGUMENT for a longer text. A character takes at most 4 bytes. */
HEED_C_API heed_status heed_model_continue(const heed_model* model, const char* prompt, int64_t characters, char* text,
                                           size_t capacity);

/* Writes the probability that each character comes after a prompt of at least one character in UTF-8: count =
   heed_model_outputs(model) numbers, for the characters of heed_model_class. A network reads the last characters that fit its
   context. */
HEED_C_API heed_status heed_model_next(const heed_model* model, const char* prompt, double* probabilities, int64_t count);

/* Sizes and names of a model; names are in UTF-8 and valid while the model is open. columns and column: numbers of a step of
   labelled sequences, and their names. outputs: numbers of an answer (probabilities of classes or characters, one value, or the
   values of a forecast). class: the name of a class, or a character ("" is the character NUL). answers: of a row of so many
   steps, 1 unless each step has one. 0 and NULL where a model has none. */
HEED_C_API int64_t heed_model_columns(const heed_model* model);
HEED_C_API const char* heed_model_column(const heed_model* model, int64_t column);
/* The name of a category, from 0, of a text column; NULL where there is none. Features hold a category's number for a text, and
   NaN for an empty cell. */
HEED_C_API const char* heed_model_category(const heed_model* model, int64_t column, int64_t category);
HEED_C_API int64_t heed_model_outputs(const heed_model* model);
HEED_C_API const char* heed_model_class(const heed_model* model, int64_t output);
HEED_C_API int64_t heed_model_answers(const heed_model* model, int64_t steps);

/* The answers of `heed predict` for features [rows, steps, columns], in their original units: out [rows, answers, outputs],
   out_count numbers. times [rows, steps] for a model with times, dates in seconds since 1970, else NULL; lengths [rows], 1 to
   steps, or NULL for all; target [rows, steps], for a forecast whose target is none of the columns, else NULL. low and high,
   [rows, answers, outputs] or NULL: the interval around answers that held 80 % of the true values when the model was made; not
   for classes. All row-major without gaps. A row has the same bits alone and among others, except with a calendar, which learns
   from all rows of a call, with Holt-Winters, whose rows of less than two seasons are forecast without one beside a longer row
   and refused without, and with a self-attentive encoder without causality among rows of more than 16,384 steps. The thread
   keeps the memory of its largest call. */
HEED_C_API heed_status heed_model_predict(const heed_model* model, const double* features, int64_t rows, int64_t steps,
                                          int64_t columns, const double* times, const int64_t* lengths, const double* target,
                                          double* out, int64_t out_count, double* low, double* high);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* HEED_HEED_H_ */
