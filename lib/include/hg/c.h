/* SPDX-License-Identifier: Apache-2.0
 * The C API, also for languages that call C.
 *
 * Errors: functions that can fail return an hg_status*. Null is success; free any other status with
 * hg_status_free(). No function throws.
 *
 * Handles (hg_model, hg_session, ...) are returned through the last argument of a function, which
 * is set to null on failure. Free each with the ..._free() function of its type; freeing null does
 * nothing.
 *
 * Strings are UTF-8 and null-terminated. A returned `const char*` is valid as long as the handle it
 * came from. Free a returned `char*` with hg_text_free().
 *
 * Structs carry their size: `X x; hg_X_init(&x, sizeof x);` sets struct_size and the defaults; then
 * set fields. Later versions only append fields, so programs compiled with an older header keep
 * working. If a struct from a newer header sets fields that this library does not have, the call
 * fails with unsupported. Output structs are filled as far as the library knows their fields.
 *
 * Threads: several threads may use an hg_model at once. Use an hg_session, hg_generator or
 * hg_trainer from one thread at a time. Any thread may use an hg_cancel. */
#ifndef HG_C_H
#define HG_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define HG_C_API
#elif defined(__GNUC__)
#define HG_C_API __attribute__((visibility("default")))
#else
#define HG_C_API
#endif
#if defined(__GNUC__)
#define HG_C_CHECKED __attribute__((warn_unused_result))
#else
#define HG_C_CHECKED
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* -- Errors ------------------------------------------------------------------------------------ */

typedef struct hg_status hg_status;
typedef int32_t hg_code;
enum {
  HG_OK = 0,
  HG_INVALID_ARGUMENT = 1,
  HG_NOT_FOUND = 2,
  HG_UNSUPPORTED = 3,
  HG_CORRUPT_MODEL = 4,
  HG_OUT_OF_MEMORY = 5,
  HG_DEVICE_LOST = 6,
  HG_CANCELLED = 7,
  HG_INTERNAL = 8,
  HG_BUSY = 9
};

HG_C_API const char* hg_version(void); /* of the library, such as "0.2.0" */
/* such as "invalid_argument"; "" for an unknown code */
HG_C_API const char* hg_code_name(hg_code code);
HG_C_API hg_code hg_status_code(const hg_status* status);
HG_C_API const char* hg_status_message(const hg_status* status); /* "" for null */
HG_C_API void hg_status_free(hg_status* status);
HG_C_API void hg_text_free(char* text);

/* -- Tensors ----------------------------------------------------------------------------------- */

#define HG_C_MAX_RANK 12

typedef int32_t hg_dtype;
enum {
  HG_F32 = 0,
  HG_F64 = 1,
  HG_F16 = 2,
  HG_BF16 = 3,
  HG_I64 = 4,
  HG_I32 = 5,
  HG_I16 = 6,
  HG_I8 = 7,
  HG_U8 = 8,
  HG_BOOL = 9,
  HG_C64 = 10,
  HG_C128 = 11
};
HG_C_API const char* hg_dtype_name(hg_dtype dtype); /* such as "f32"; "" for an unknown dtype */
HG_C_API int64_t hg_dtype_bytes(hg_dtype dtype);    /* of one element; 0 for an unknown dtype */

/* A view of memory, set by hg_tensor_view(). Strides count elements and may be 0 or negative. */
typedef struct hg_tensor {
  uint32_t struct_size;
  hg_dtype dtype;
  void* data; /* only read if the tensor is an input */
  int32_t rank;
  int32_t reserved;
  int64_t shape[HG_C_MAX_RANK];
  int64_t strides[HG_C_MAX_RANK];
} hg_tensor;

/* Makes a contiguous view of `data`. Fails with invalid_argument if a size is negative or the bytes
 * exceed 2^63 - 1. */
HG_C_API hg_status* hg_tensor_view(hg_tensor* tensor, size_t struct_size, void* data,
                                   hg_dtype dtype, int32_t rank, const int64_t* shape) HG_C_CHECKED;
HG_C_API int64_t hg_tensor_count(const hg_tensor* tensor); /* elements; -1 if `tensor` is invalid */

/* -- Models ------------------------------------------------------------------------------------ */

typedef struct hg_model hg_model;

/* See hg::LoadOptions. 0: no limit. */
typedef struct hg_load_options {
  uint32_t struct_size;
  int32_t verify_weights; /* 1: reads all weights and verifies their checksums */
  int32_t copy;           /* 1: hg_model_load reads the file instead of mapping it */
  int32_t max_dims;       /* of one tensor */
  int64_t max_nodes;      /* of all graphs in the file */
  int64_t max_bytes;      /* of the file */
} hg_load_options;
HG_C_API void hg_load_options_init(hg_load_options* options, size_t struct_size);

/* Loads a file. In all functions, `options` may be null. */
HG_C_API hg_status* hg_model_load(const char* path, const hg_load_options* options,
                                  hg_model** model) HG_C_CHECKED;
/* Loads from memory, which is copied. */
HG_C_API hg_status* hg_model_read(const void* bytes, size_t size, const hg_load_options* options,
                                  hg_model** model) HG_C_CHECKED;
/* Loads from memory without copying it. `bytes` must be 64-byte aligned and outlive the model and
 * everything created from it. */
HG_C_API hg_status* hg_model_borrow(const void* bytes, size_t size, const hg_load_options* options,
                                    hg_model** model) HG_C_CHECKED;
/* Writes a new file and then replaces `path`, which always holds a complete file. */
HG_C_API hg_status* hg_model_save(const hg_model* model, const char* path) HG_C_CHECKED;
HG_C_API void hg_model_free(hg_model* model);

/* A model with the sum of these adapters; see hg::apply_adapters(). `rank` leaves room for others
 * that hg_session_set_adapters() or hg_generator_set_adapters() sets later. */
HG_C_API hg_status* hg_model_apply_adapters(const hg_model* model, const hg_model* const* adapters,
                                            size_t count, int64_t rank,
                                            hg_model** adapted) HG_C_CHECKED;

/* An input or output. */
typedef struct hg_value_info {
  uint32_t struct_size;
  hg_dtype dtype;
  int32_t rank;
  int32_t reserved;
  const char* name;
  const char* type;                /* such as "f32[n, 3, 224, 224]" */
  int64_t shape[HG_C_MAX_RANK];    /* -1: symbolic size */
  const char* dims[HG_C_MAX_RANK]; /* such as "n", "2*n + 1", "224" */
} hg_value_info;

/* A parameter, buffer or constant. Do not write to `tensor`. */
typedef struct hg_state_info {
  uint32_t struct_size;
  int32_t kind; /* HG_PARAMETER ... */
  const char* name;
  int32_t requires_grad;
  int32_t reserved;
  hg_tensor tensor;
} hg_state_info;
enum { HG_PARAMETER = 0, HG_BUFFER = 1, HG_CONSTANT = 2 };

typedef struct hg_node_info {
  uint32_t struct_size;
  int32_t input_count, output_count; /* includes inputs that are not given */
  int32_t reserved;
  const char* op;     /* such as "conv" */
  const char* name;   /* of its first output */
  const char* module; /* such as "layer1.0.conv1", or "" */
  const char* source; /* such as "model.py:12", or "" */
} hg_node_info;

HG_C_API int32_t hg_model_input_count(const hg_model* model);
HG_C_API int32_t hg_model_output_count(const hg_model* model);
HG_C_API int32_t hg_model_state_count(const hg_model* model);
HG_C_API int32_t hg_model_node_count(const hg_model* model);
HG_C_API int32_t hg_model_symbol_count(const hg_model* model); /* of the symbolic sizes of inputs */
/* Fill *info, whose struct_size must be set. Fail with not_found if the index is out of range. */
HG_C_API hg_status* hg_model_input(const hg_model* model, int32_t index,
                                   hg_value_info* info) HG_C_CHECKED;
HG_C_API hg_status* hg_model_output(const hg_model* model, int32_t index,
                                    hg_value_info* info) HG_C_CHECKED;
HG_C_API hg_status* hg_model_state(const hg_model* model, int32_t index,
                                   hg_state_info* info) HG_C_CHECKED;
HG_C_API hg_status* hg_model_node(const hg_model* model, int32_t index,
                                  hg_node_info* info) HG_C_CHECKED;
HG_C_API const char* hg_model_symbol(const hg_model* model,
                                     int32_t index); /* null if out of range */
HG_C_API const char* hg_model_producer(const hg_model* model);
HG_C_API const char* hg_model_source(const hg_model* model);
/* Sets *bytes and *size to the attachment of this name, such as "tokenizer.json". Valid as long as
 * the model. Fails with not_found. */
HG_C_API hg_status* hg_model_attachment(const hg_model* model, const char* name, const void** bytes,
                                        size_t* size) HG_C_CHECKED;
HG_C_API hg_status* hg_model_text(const hg_model* model, char** text) HG_C_CHECKED;

/* Entries are named graphs in one file. A model with several has no inputs, outputs or nodes of its
 * own: get an entry as a model, or create a session with hg_session_options.entry. */
HG_C_API int32_t hg_model_entry_count(const hg_model* model); /* 0: one graph without a name */
HG_C_API const char* hg_model_entry_name(const hg_model* model,
                                         int32_t index); /* null if out of range */
/* Makes a model of an entry; it shares the weights. Fails with not_found, listing the entries. */
HG_C_API hg_status* hg_model_entry(const hg_model* model, const char* name,
                                   hg_model** entry) HG_C_CHECKED;

/* Buffers that the sessions of several entries share: see hg/shared_states.h. Use the object and
 * its sessions from one thread at a time. */
typedef struct hg_states hg_states;
HG_C_API hg_status* hg_states_create(const hg_model* model, hg_states** states) HG_C_CHECKED;
HG_C_API void hg_states_free(hg_states* states); /* sessions keep the states */
HG_C_API int32_t hg_states_count(const hg_states* states);
HG_C_API const char* hg_states_name(const hg_states* states,
                                    int32_t index); /* null if out of range */
/* Fills a view of the current value, which runs change. Valid while the states exist. */
HG_C_API hg_status* hg_states_value(const hg_states* states, const char* name,
                                    hg_tensor* value) HG_C_CHECKED;
HG_C_API hg_status* hg_states_set_value(hg_states* states, const char* name,
                                        const hg_tensor* value) HG_C_CHECKED;
HG_C_API void hg_states_reset(hg_states* states); /* to the values of the model */

/* -- Devices ----------------------------------------------------------------------------------- */

typedef struct hg_gpu hg_gpu;                     /* an open device, which sessions may share */
typedef struct hg_device_tensor hg_device_tensor; /* a contiguous tensor on a device */

typedef struct hg_device_info {
  uint32_t struct_size;
  int32_t type; /* HG_DISCRETE ... */
  char name[256];
  char driver[256];
  int64_t memory_bytes;
} hg_device_info;
enum {
  HG_DISCRETE = 0,
  HG_INTEGRATED = 1,
  HG_VIRTUAL_GPU = 2,
  HG_SOFTWARE = 3,
  HG_OTHER_DEVICE = 4
};

/* Vulkan devices. Fail with unsupported if this build or machine has no Vulkan. */
HG_C_API hg_status* hg_device_count(int32_t* count) HG_C_CHECKED;
HG_C_API hg_status* hg_device(int32_t index, hg_device_info* info) HG_C_CHECKED;
/* Opens a device. `name`: an index or part of the name; null or "" selects the best hardware
 * device. `cache`: an earlier result of hg_gpu_cache(), or null. */
HG_C_API hg_status* hg_gpu_open(const char* name, const void* cache, size_t cache_size,
                                hg_gpu** gpu) HG_C_CHECKED;
HG_C_API hg_status* hg_gpu_info(const hg_gpu* gpu, hg_device_info* info) HG_C_CHECKED;
/* Copies at most `capacity` bytes to `cache` and sets *size to the full size. `cache` may be null
 * to query the size. */
HG_C_API hg_status* hg_gpu_cache(const hg_gpu* gpu, void* cache, size_t capacity,
                                 size_t* size) HG_C_CHECKED;
HG_C_API void hg_gpu_free(hg_gpu* gpu); /* sessions keep the device open */
HG_C_API hg_status* hg_gpu_upload(const hg_gpu* gpu, const hg_tensor* tensor,
                                  hg_device_tensor** uploaded) HG_C_CHECKED;
/* Copies to `into`, which must have the tensor's dtype and shape; any strides. */
HG_C_API hg_status* hg_gpu_download(const hg_gpu* gpu, const hg_device_tensor* tensor,
                                    const hg_tensor* into) HG_C_CHECKED;
/* Fills dtype, rank and shape; data is null. */
HG_C_API hg_status* hg_device_tensor_type(const hg_device_tensor* tensor,
                                          hg_tensor* type) HG_C_CHECKED;
HG_C_API void hg_device_tensor_free(hg_device_tensor* tensor);

/* -- Sessions ---------------------------------------------------------------------------------- */

typedef struct hg_session hg_session;

/* Cancels runs, from any thread. */
typedef struct hg_cancel hg_cancel;
HG_C_API hg_status* hg_cancel_create(hg_cancel** cancel) HG_C_CHECKED;
HG_C_API void hg_cancel_request(hg_cancel* cancel);
HG_C_API void hg_cancel_free(hg_cancel* cancel);

typedef struct hg_dim_size {
  const char* name; /* of a symbol */
  int64_t size;
} hg_dim_size;

typedef struct hg_size_range { /* from `lowest` to `highest`, both inclusive */
  const char* name;            /* of a symbol */
  int64_t lowest, highest;
} hg_size_range;

enum { HG_DEVICE_CPU = 0, HG_DEVICE_VULKAN = 1, HG_DEVICE_AUTOMATIC = 2 };
enum { HG_PRECISION_F32 = 0, HG_PRECISION_BF16 = 1, HG_PRECISION_I8 = 2 };
enum { HG_CHECKPOINT_NONE = 0, HG_CHECKPOINT_SQRT = 1 };
enum { HG_LOG_INFO = 0, HG_LOG_WARNING = 1 };

/* See hg::SessionOptions for details. All zero except struct_size is the default. The callbacks and
 * their host pointers must outlive the session. */
typedef struct hg_session_options {
  uint32_t struct_size;
  int32_t device;
  int32_t threads; /* 0: all processors of the process */
  int32_t precision;
  /* The host's thread pool: calls task(arg, 0) ... task(arg, count - 1) and returns when all are
   * done. */
  void (*parallel_for)(void* host, int64_t count, void (*task)(void* arg, int64_t index),
                       void* arg);
  void* parallel_host;
  int32_t parallel_threads; /* 0: one */
  int32_t checkpoint;
  /* The host's allocator: returns 64-byte aligned memory, or null on failure. Set both functions or
   * neither. */
  void* (*allocate)(void* host, size_t bytes);
  void (*deallocate)(void* host, void* memory, size_t bytes);
  void* allocator_host;
  /* Receives decisions of the session, one sentence at a time, on the calling thread. */
  void (*log)(void* host, int32_t level, const char* message);
  void* log_host;
  int64_t memory_limit;
  int64_t most_rounds;
  uint64_t seed, first_run;
  const hg_dim_size* dims; /* sizes to plan for at creation */
  size_t dim_count;
  const hg_gpu* gpu;
  const char* gpu_name;
  const void* tuning; /* earlier result of hg_session_tuning() */
  size_t tuning_size;
  int32_t low_memory, autotune, device_outputs, profile, keep_all_values;
  int32_t reserved;
  const hg_size_range* ranges; /* to plan memory for, with one plan each */
  size_t range_count;
  const char* entry;       /* of a model with several; null: the only graph */
  const hg_states* states; /* null: states of its own */
  const char* packed;      /* a file of packed weights, see hg_session_save_packed; null: none */
} hg_session_options;
HG_C_API void hg_session_options_init(hg_session_options* options, size_t struct_size);

HG_C_API hg_status* hg_session_create(const hg_model* model, const hg_session_options* options,
                                      hg_session** session) HG_C_CHECKED;
HG_C_API void hg_session_free(hg_session* session);

/* Set an input. The memory of `tensor` is borrowed until the next call for that input. */
HG_C_API hg_status* hg_session_set_input(hg_session* session, const char* name,
                                         const hg_tensor* tensor) HG_C_CHECKED;
HG_C_API hg_status* hg_session_set_input_at(hg_session* session, int32_t index,
                                            const hg_tensor* tensor) HG_C_CHECKED;
HG_C_API hg_status* hg_session_set_device_input(hg_session* session, const char* name,
                                                const hg_device_tensor* tensor) HG_C_CHECKED;
/* Bind an output: runs write it to `tensor`, whose memory is borrowed until the next call for that
 * output. Null unbinds it. */
HG_C_API hg_status* hg_session_set_output(hg_session* session, const char* name,
                                          const hg_tensor* tensor) HG_C_CHECKED;
HG_C_API hg_status* hg_session_set_output_at(hg_session* session, int32_t index,
                                             const hg_tensor* tensor) HG_C_CHECKED;
/* Releases all borrowed tensors. */
HG_C_API void hg_session_forget_tensors(hg_session* session);
/* Switches the adapters of a session; see hg::set_adapters(). count 0: none, as the base model. */
HG_C_API hg_status* hg_session_set_adapters(hg_session* session, const hg_model* const* adapters,
                                            size_t count) HG_C_CHECKED;
/* Restarts random ops with `seed`, as in a new session. */
HG_C_API void hg_session_seed(hg_session* session, uint64_t seed);
/* Plans for the sizes of the inputs set so far, or for `dims`. hg_session_run() plans if needed. */
HG_C_API hg_status* hg_session_plan(hg_session* session, const hg_dim_size* dims,
                                    size_t dim_count) HG_C_CHECKED;
/* `cancel` may be null. */
HG_C_API hg_status* hg_session_run(hg_session* session, const hg_cancel* cancel) HG_C_CHECKED;
/* Fill *tensor with a view of an output, in the session's memory or in the bound tensor. Valid
 * until the next run or plan, and only while the session lives (docs/embedding.md). struct_size
 * must be set. */
HG_C_API hg_status* hg_session_output(const hg_session* session, const char* name,
                                      hg_tensor* tensor) HG_C_CHECKED;
HG_C_API hg_status* hg_session_output_at(const hg_session* session, int32_t index,
                                         hg_tensor* tensor) HG_C_CHECKED;
HG_C_API hg_status* hg_session_device_output(const hg_session* session, const char* name,
                                             hg_device_tensor** tensor) HG_C_CHECKED;
/* Fills *tensor with a view of a parameter or buffer with its current contents; with
 * keep_all_values, of any value. */
HG_C_API hg_status* hg_session_value(const hg_session* session, const char* name,
                                     hg_tensor* tensor) HG_C_CHECKED;
HG_C_API hg_status* hg_session_set_value(hg_session* session, const char* name,
                                         const hg_tensor* tensor) HG_C_CHECKED;

typedef struct hg_memory {
  uint32_t struct_size;
  int32_t reserved;
  int64_t peak_bytes, arena_bytes, arena_lower_bound, weights_bytes, packed_bytes, device_bytes;
  double extra_flops;
  int64_t mapped_bytes; /* the part of packed_bytes from hg_session_options.packed */
} hg_memory;
/* Memory use for the planned sizes, exact before the first run. struct_size must be set. */
HG_C_API hg_status* hg_session_memory(const hg_session* session, hg_memory* memory) HG_C_CHECKED;
HG_C_API double hg_session_flops(const hg_session* session);
/* Devices, kernels and passes, for people. */
HG_C_API hg_status* hg_session_report(const hg_session* session, char** text) HG_C_CHECKED;
/* Time per node of the last run, one per line. Needs hg_session_options.profile. */
HG_C_API hg_status* hg_session_profile(const hg_session* session, char** text) HG_C_CHECKED;
/* Copies at most `capacity` bytes to `tuning` and sets *size to the full size. `tuning` may be null
 * to query the size. */
HG_C_API hg_status* hg_session_tuning(const hg_session* session, void* tuning, size_t capacity,
                                      size_t* size) HG_C_CHECKED;
/* Writes packed weights to hg_session_options.packed, from which later sessions map them. */
HG_C_API hg_status* hg_session_save_packed(const hg_session* session) HG_C_CHECKED;

/* -- Generation -------------------------------------------------------------------------------- */

/* Continues prompts of token ids with a language model. See hg/generator.h for the models. */
typedef struct hg_generator hg_generator;

HG_C_API hg_status* hg_generator_create(const hg_model* model, const hg_session_options* options,
                                        hg_generator** generator) HG_C_CHECKED;
HG_C_API void hg_generator_free(hg_generator* generator);

typedef struct hg_token_ids {
  const int32_t* ids;
  size_t count;
} hg_token_ids;

/* Restricts the tokens of answers, for example to a grammar (hg/text/c.h). */
typedef struct hg_constraint hg_constraint;
HG_C_API void hg_constraint_free(hg_constraint* constraint);

enum { HG_EARLY_STOPPING_NO = 0, HG_EARLY_STOPPING_YES = 1, HG_EARLY_STOPPING_NEVER = 2 };
/* See hg::GenerateOptions and hg::SamplerOptions. */
typedef struct hg_generate_options {
  uint32_t struct_size;
  int32_t top_k;           /* 0: all */
  int64_t max_tokens;      /* 128; new tokens per prompt */
  uint64_t seed;           /* of draws */
  const int32_t* stop_ids; /* end a sequence; not part of it; in the vocabulary */
  size_t stop_id_count;
  float temperature; /* 0: the token with the largest logit */
  float top_p;       /* 1 */
  float min_p;
  float repetition_penalty; /* 1 */
  int32_t log_probabilities;
  int32_t reuse_past;
  int64_t num_return_sequences;    /* 1; answers per prompt */
  int64_t num_beams;               /* 1; above 1: hg_generator_generate() searches for answers */
  float length_penalty;            /* 1; of beams */
  int32_t early_stopping;          /* of beams */
  int64_t lookup;                  /* speculative decoding: most tokens from earlier text */
  hg_generator* draft;             /* or, of a small model, which must live until the last step */
  int64_t draft_tokens;            /* 5 */
  const hg_token_ids* encoder_ids; /* encoder-decoders: texts of the prompts; or ... */
  size_t encoder_id_count;
  const hg_tensor* encoder_features; /* ... f32 [prompts, ...] */
  const hg_constraint* constraint;   /* may be freed after the call that takes the options */
  /* Called before each choice; may change the logits. `ids`: the prompt and the answer so far.
   * A result other than 0 fails the generation with invalid_argument. */
  int32_t (*on_logits)(void* host, int64_t prompt, const int32_t* ids, size_t id_count,
                       float* logits, size_t logit_count);
  void* host; /* of on_logits */
} hg_generate_options;
HG_C_API void hg_generate_options_init(hg_generate_options* options, size_t struct_size);

/* Starts to continue the prompts and discards earlier ones. Copies everything it needs. */
HG_C_API hg_status* hg_generator_begin(hg_generator* generator, const hg_token_ids* prompts,
                                       size_t prompt_count,
                                       const hg_generate_options* options) HG_C_CHECKED;
/* Continues the prompts until all answers end; see hg_generator_sequence(). */
HG_C_API hg_status* hg_generator_generate(hg_generator* generator, const hg_token_ids* prompts,
                                          size_t prompt_count, const hg_generate_options* options,
                                          const hg_cancel* cancel) HG_C_CHECKED;
/* Runs the model once and sets *count to the number of new tokens, at most one per prompt, and
 * several with speculative decoding. 0: all sequences have ended. `cancel` may be null. After a
 * failure, call hg_generator_begin(). */
HG_C_API hg_status* hg_generator_step(hg_generator* generator, const hg_cancel* cancel,
                                      size_t* count) HG_C_CHECKED;

typedef struct hg_generated_token {
  uint32_t struct_size;
  int32_t id;
  int64_t prompt;        /* index of the prompt that it continues */
  float log_probability; /* 0 unless hg_generate_options.log_probabilities */
  int32_t reserved;
} hg_generated_token;
/* A new token of the last step, in order of prompts. struct_size must be set. */
HG_C_API hg_status* hg_generator_token(const hg_generator* generator, size_t index,
                                       hg_generated_token* token) HG_C_CHECKED;
/* Ends the sequence of a prompt, between steps. */
HG_C_API hg_status* hg_generator_end(hg_generator* generator, int64_t prompt) HG_C_CHECKED;

enum { HG_FINISH_LENGTH = 0, HG_FINISH_STOP = 1 };
/* All new ids of a prompt so far, valid until the next call with the generator, and why the
 * sequence ended; `finish` may be null. */
HG_C_API hg_status* hg_generator_sequence(const hg_generator* generator, int64_t prompt,
                                          const int32_t** ids, size_t* count,
                                          int32_t* finish) HG_C_CHECKED;

/* The past of one sequence: what the model has read. See "The past" in hg/generator.h. */
HG_C_API int64_t hg_generator_length(const hg_generator* generator); /* tokens; 0 for null */
/* Copies at most `capacity` ids of the past and sets *count to their number. */
HG_C_API hg_status* hg_generator_ids(const hg_generator* generator, int32_t* ids, size_t capacity,
                                     size_t* count) HG_C_CHECKED;
/* Reads more tokens. The logits after the last one are valid until the next call. */
HG_C_API hg_status* hg_generator_append(hg_generator* generator, const int32_t* ids, size_t count,
                                        const hg_cancel* cancel, const float** logits,
                                        size_t* logit_count) HG_C_CHECKED;
HG_C_API void hg_generator_reset(hg_generator* generator);
HG_C_API hg_status* hg_generator_truncate(hg_generator* generator, int64_t length) HG_C_CHECKED;
HG_C_API hg_status* hg_generator_fork(const hg_generator* generator,
                                      hg_generator** copy) HG_C_CHECKED;
HG_C_API hg_status* hg_generator_save(const hg_generator* generator, const char* path) HG_C_CHECKED;
HG_C_API hg_status* hg_generator_load(hg_generator* generator, const char* path) HG_C_CHECKED;
/* Switches the adapters, as hg_session_set_adapters() does. What the model has read is read again
 * in the next call. Ends the generation. */
HG_C_API hg_status* hg_generator_set_adapters(hg_generator* generator,
                                              const hg_model* const* adapters,
                                              size_t count) HG_C_CHECKED;

/* Sequences that join and leave between steps. See hg/batch_generator.h. */
typedef struct hg_batch hg_batch;
HG_C_API hg_status* hg_batch_create(const hg_model* model, int64_t rows,
                                    const hg_session_options* options,
                                    hg_batch** batch) HG_C_CHECKED;
HG_C_API void hg_batch_free(hg_batch* batch);
/* Reads a prompt, and sets *id to the id of its sequence. */
HG_C_API hg_status* hg_batch_add(hg_batch* batch, const hg_token_ids* prompt,
                                 const hg_generate_options* options, const hg_cancel* cancel,
                                 int64_t* id) HG_C_CHECKED;
/* Runs the model once; as hg_generator_step() and hg_generator_token(). */
HG_C_API hg_status* hg_batch_step(hg_batch* batch, const hg_cancel* cancel,
                                  size_t* count) HG_C_CHECKED;
HG_C_API hg_status* hg_batch_token(const hg_batch* batch, size_t index,
                                   hg_generated_token* token) HG_C_CHECKED;
HG_C_API hg_status* hg_batch_end(hg_batch* batch, int64_t id) HG_C_CHECKED;
HG_C_API int64_t hg_batch_running(const hg_batch* batch); /* sequences; 0 for null */

typedef struct hg_ended_sequence {
  uint32_t struct_size;
  int32_t finish;
  int64_t id;
  const int32_t* ids; /* valid until the next hg_batch_step() */
  size_t count;
  int32_t code; /* why it failed; 0: it did not */
  int32_t reserved;
  const char* message; /* "" if it did not; valid as `ids` */
} hg_ended_sequence;
/* Sequences that the last hg_batch_step() or later hg_batch_end() calls ended. */
HG_C_API size_t hg_batch_ended_count(const hg_batch* batch); /* 0 for null */
HG_C_API hg_status* hg_batch_ended(const hg_batch* batch, size_t index,
                                   hg_ended_sequence* sequence) HG_C_CHECKED;

/* Turns texts into vectors. See hg/embedder.h. */
typedef struct hg_embedder hg_embedder;
enum { HG_POOLING_MEAN = 0, HG_POOLING_LAST = 1, HG_POOLING_FIRST = 2 };
HG_C_API hg_status* hg_embedder_create(const hg_model* model, const hg_session_options* options,
                                       hg_embedder** embedder) HG_C_CHECKED;
HG_C_API void hg_embedder_free(hg_embedder* embedder);
HG_C_API int64_t hg_embedder_size(const hg_embedder* embedder); /* of a vector; 0 for null */
/* Writes hg_embedder_size() numbers. */
HG_C_API hg_status* hg_embedder_embed(hg_embedder* embedder, const int32_t* ids, size_t count,
                                      int32_t pooling, int32_t normalize, const hg_cancel* cancel,
                                      float* embedding) HG_C_CHECKED;

/* -- Training ---------------------------------------------------------------------------------- */

typedef struct hg_trainer hg_trainer;

enum {
  HG_MSE = 0,
  HG_L1 = 1,
  HG_SMOOTH_L1 = 2,
  HG_HUBER = 3,
  HG_CROSS_ENTROPY = 4,
  HG_NLL = 5,
  HG_BCE = 6,
  HG_BCE_WITH_LOGITS = 7,
  HG_KL_DIV = 8,
  HG_OUTPUT_LOSS = 9
};
enum { HG_REDUCTION_MEAN = 0, HG_REDUCTION_SUM = 1 };
enum { HG_SGD = 0, HG_ADAM = 1, HG_ADAMW = 2, HG_RMSPROP = 3 };
enum {
  HG_CONSTANT_RATE = 0,
  HG_STEP_RATE = 1,
  HG_EXPONENTIAL = 2,
  HG_LINEAR = 3,
  HG_COSINE = 4,
  HG_ONE_CYCLE = 5,
  HG_PLATEAU = 6
};
enum { HG_ACCURACY = 0, HG_MEAN_ERROR = 1 };
enum { HG_TRAINING = 0, HG_AS_TRACED = 1 };

/* See hg::Loss. Null strings mean the default: the first output, "target". */
typedef struct hg_loss {
  uint32_t struct_size;
  int32_t kind;
  const char* output;
  const char* target;
  double weight;
  int32_t reduction;
  int32_t log_target;
  double beta;
  double label_smoothing;
  int64_t ignore_index;
  const double* class_weights;
  size_t class_count;
} hg_loss;
HG_C_API void hg_loss_init(hg_loss* loss, size_t struct_size); /* mse */

/* See hg::Optimizer: torch.optim's optimizers with their defaults. */
typedef struct hg_optimizer {
  uint32_t struct_size;
  int32_t kind;
  double lr, weight_decay, momentum, dampening, beta1, beta2, alpha, eps;
  int32_t nesterov, amsgrad, centered, maximize;
} hg_optimizer;
HG_C_API void hg_optimizer_init(hg_optimizer* optimizer, size_t struct_size, int32_t kind);

/* See hg::Schedule. */
typedef struct hg_schedule {
  uint32_t struct_size;
  int32_t kind;
  int32_t by_epoch;
  int32_t maximize;
  int64_t warmup, total, period, patience, cooldown;
  double gamma, min_lr, start, end, rise, div_factor, final_div_factor, threshold;
} hg_schedule;
HG_C_API void hg_schedule_init(hg_schedule* schedule, size_t struct_size); /* constant */

/* See hg::ParameterRule. NaN and -1 leave a setting unchanged. */
typedef struct hg_parameter_rule {
  uint32_t struct_size;
  int32_t frozen; /* -1, 0 or 1 */
  const char* pattern;
  double lr, weight_decay;
} hg_parameter_rule;
HG_C_API void hg_parameter_rule_init(hg_parameter_rule* rule, size_t struct_size);

typedef struct hg_metric {
  uint32_t struct_size;
  int32_t kind;
  const char* output;
  const char* target;
} hg_metric;
HG_C_API void hg_metric_init(hg_metric* metric, size_t struct_size); /* accuracy */

/* See hg::TrainOptions. The elements of a list must all have the struct_size of its first
 * element. */
typedef struct hg_train_options {
  uint32_t struct_size;
  int32_t mode;
  const hg_loss* losses; /* none: mse of the first output */
  size_t loss_count;
  const hg_metric* metrics;
  size_t metric_count;
  const hg_parameter_rule* rules;
  size_t rule_count;
  const hg_optimizer* optimizer; /* null: sgd */
  const hg_schedule* schedule;   /* null: constant */
  const hg_session_options* session;
  double clip_norm, clip_value;
  int32_t accumulate;
  hg_dtype compute;
  int32_t resume;
  int32_t reserved;
} hg_train_options;
HG_C_API void hg_train_options_init(hg_train_options* options, size_t struct_size);

/* Tensors whose first dim counts samples. */
typedef struct hg_dataset {
  uint32_t struct_size;
  int32_t reserved;
  const hg_tensor* inputs;
  size_t input_count;
  const hg_tensor* targets;
  size_t target_count;
} hg_dataset;
HG_C_API void hg_dataset_init(hg_dataset* data, size_t struct_size);

typedef struct hg_progress {
  uint32_t struct_size;
  int32_t is_epoch, is_best, has_validation;
  int64_t step, steps, epoch, epochs;
  double loss, lr, ms, validation_loss;
} hg_progress;

/* See hg::FitOptions. */
typedef struct hg_fit_options {
  uint32_t struct_size;
  int32_t shuffle, finish, reserved;
  int64_t epochs, batch, patience;
  const hg_dataset* validation;
  const char* best_path;
  int (*on_progress)(void* host, const hg_progress* progress); /* returning 0 ends the training */
  void* progress_host;
  const hg_cancel* cancel;
} hg_fit_options;
HG_C_API void hg_fit_options_init(hg_fit_options* options, size_t struct_size);

HG_C_API hg_status* hg_trainer_create(const hg_model* model, const hg_train_options* options,
                                      hg_trainer** trainer) HG_C_CHECKED;
HG_C_API void hg_trainer_free(hg_trainer* trainer);
/* Trains on one batch. *loss is the loss before the update; may be null. */
HG_C_API hg_status* hg_trainer_step(hg_trainer* trainer, const hg_dataset* batch,
                                    const hg_cancel* cancel, double* loss) HG_C_CHECKED;
HG_C_API hg_status* hg_trainer_fit(hg_trainer* trainer, const hg_dataset* data,
                                   const hg_fit_options* options) HG_C_CHECKED;
/* Loss and metrics with the current weights. `metrics` must have room for one number per metric in
 * the options; both may be null. */
HG_C_API hg_status* hg_trainer_evaluate(hg_trainer* trainer, const hg_dataset* data, int64_t batch,
                                        double* loss, double* metrics) HG_C_CHECKED;
HG_C_API void hg_trainer_end_epoch(hg_trainer* trainer, double loss);
HG_C_API void hg_trainer_set_lr(hg_trainer* trainer, double lr);
HG_C_API double hg_trainer_lr(const hg_trainer* trainer);
HG_C_API int64_t hg_trainer_updates(const hg_trainer* trainer);
HG_C_API int32_t hg_trainer_trained_count(const hg_trainer* trainer);
HG_C_API const char* hg_trainer_trained(const hg_trainer* trainer,
                                        int32_t index); /* null if out of range */
HG_C_API int32_t hg_trainer_note_count(const hg_trainer* trainer);
HG_C_API const char* hg_trainer_note(const hg_trainer* trainer, int32_t index);
HG_C_API hg_status* hg_trainer_memory(const hg_trainer* trainer, hg_memory* memory) HG_C_CHECKED;
/* A model with the current weights and the optimizer's state, from which training resumes
 * exactly. */
HG_C_API hg_status* hg_trainer_model(const hg_trainer* trainer, hg_model** model) HG_C_CHECKED;
HG_C_API hg_status* hg_trainer_save(const hg_trainer* trainer, const char* path) HG_C_CHECKED;

#ifdef __cplusplus
}
#endif

#endif /* HG_C_H */
