/* SPDX-License-Identifier: Apache-2.0
 * The library for C, and for languages that call C.
 *
 * What can fail returns an hg_status*: null is success; anything else is freed by hg_status_free().
 * Nothing is thrown over this border. Handles (hg_model, hg_session ...) are made by the last
 * argument of a function, which is null where it fails, and freed by the function of their name;
 * freeing null does nothing. Strings are UTF-8 and end with 0; a `const char*` that a function
 * gives lives as long as the handle that was asked, and a `char*` is freed by hg_text_free().
 *
 * Structs are sized: `X x; hg_X_init(&x, sizeof x);` sets struct_size and the defaults, and then
 * fields may be set. Fields are only ever added at the end, so a program that was compiled with an
 * older header goes on. A struct of a newer header that asks for what this library does not
 * know is `unsupported`; of what the library fills, it fills what it knows.
 *
 * Threads: an hg_model may be used by many at once, an hg_session and an hg_trainer by one at a
 * time, an hg_cancel by any. */
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

HG_C_API const char* hg_version(void);           /* "0.2.0", of the library */
HG_C_API const char* hg_code_name(hg_code code); /* "invalid_argument"; "" of an unknown one */
HG_C_API hg_code hg_status_code(const hg_status* status);
HG_C_API const char* hg_status_message(const hg_status* status); /* "" of null */
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
HG_C_API const char* hg_dtype_name(hg_dtype dtype); /* "f32"; "" of an unknown one */
HG_C_API int64_t hg_dtype_bytes(hg_dtype dtype);    /* of one element; 0 of an unknown one */

/* A view of memory that somebody else owns. Strides count elements, and may be 0 or negative. */
typedef struct hg_tensor {
  uint32_t struct_size;
  hg_dtype dtype;
  void* data; /* of an input it is only read */
  int32_t rank;
  int32_t reserved;
  int64_t shape[HG_C_MAX_RANK];
  int64_t strides[HG_C_MAX_RANK];
} hg_tensor;

/* A contiguous view of `data`. Sizes are not negative, and their bytes are below 2^63. */
HG_C_API hg_status* hg_tensor_view(hg_tensor* tensor, size_t struct_size, void* data,
                                   hg_dtype dtype, int32_t rank, const int64_t* shape) HG_C_CHECKED;
HG_C_API int64_t hg_tensor_count(const hg_tensor* tensor); /* elements; -1 where it is no tensor */

/* -- Models ------------------------------------------------------------------------------------ */

typedef struct hg_model hg_model;

/* hg::LoadOptions; 0 is no limit. */
typedef struct hg_load_options {
  uint32_t struct_size;
  int32_t verify_weights; /* 1: reads all weights and holds them against their checksums */
  int32_t copy;           /* 1: hg_model_load reads the file into memory instead of mapping it */
  int32_t max_dims;       /* dims of one tensor */
  int64_t max_nodes;      /* nodes of all graphs of the file together */
  int64_t max_bytes;      /* of the file */
} hg_load_options;
HG_C_API void hg_load_options_init(hg_load_options* options, size_t struct_size);

/* `options` may be null everywhere. */
HG_C_API hg_status* hg_model_load(const char* path, const hg_load_options* options,
                                  hg_model** model) HG_C_CHECKED;
/* From memory, which is copied. */
HG_C_API hg_status* hg_model_read(const void* bytes, size_t size, const hg_load_options* options,
                                  hg_model** model) HG_C_CHECKED;
/* From memory that is not copied: it begins at a multiple of 64 and outlives the model and all that
 * is made of it. */
HG_C_API hg_status* hg_model_borrow(const void* bytes, size_t size, const hg_load_options* options,
                                    hg_model** model) HG_C_CHECKED;
/* The old file stays until the new one is whole. */
HG_C_API hg_status* hg_model_save(const hg_model* model, const char* path) HG_C_CHECKED;
HG_C_API void hg_model_free(hg_model* model);

/* An input, an output, or another value of the graph. */
typedef struct hg_value_info {
  uint32_t struct_size;
  hg_dtype dtype;
  int32_t rank;
  int32_t reserved;
  const char* name;
  const char* type;                /* "f32[n, 3, 224, 224]" */
  int64_t shape[HG_C_MAX_RANK];    /* -1: open */
  const char* dims[HG_C_MAX_RANK]; /* "n", "2*n + 1", "224" */
} hg_value_info;

/* A parameter, a buffer or a constant. `tensor` is only read. */
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
  int32_t input_count, output_count; /* inputs that are not given counted, too */
  int32_t reserved;
  const char* op;     /* "conv" */
  const char* name;   /* of its first output */
  const char* module; /* "layer1.0.conv1", or "" */
  const char* source; /* "model.py:12", or "" */
} hg_node_info;

HG_C_API int32_t hg_model_input_count(const hg_model* model);
HG_C_API int32_t hg_model_output_count(const hg_model* model);
HG_C_API int32_t hg_model_state_count(const hg_model* model);
HG_C_API int32_t hg_model_node_count(const hg_model* model);
HG_C_API int32_t hg_model_symbol_count(const hg_model* model); /* of the open sizes of inputs */
/* Each fills *info, whose struct_size the caller set. not_found: there is no such index. */
HG_C_API hg_status* hg_model_input(const hg_model* model, int32_t index,
                                   hg_value_info* info) HG_C_CHECKED;
HG_C_API hg_status* hg_model_output(const hg_model* model, int32_t index,
                                    hg_value_info* info) HG_C_CHECKED;
HG_C_API hg_status* hg_model_state(const hg_model* model, int32_t index,
                                   hg_state_info* info) HG_C_CHECKED;
HG_C_API hg_status* hg_model_node(const hg_model* model, int32_t index,
                                  hg_node_info* info) HG_C_CHECKED;
HG_C_API const char* hg_model_symbol(const hg_model* model,
                                     int32_t index); /* null: no such index */
HG_C_API const char* hg_model_producer(const hg_model* model);
HG_C_API const char* hg_model_source(const hg_model* model);
HG_C_API hg_status* hg_model_text(const hg_model* model, char** text) HG_C_CHECKED;

/* -- Devices ----------------------------------------------------------------------------------- */

typedef struct hg_gpu hg_gpu;                     /* an open device; many sessions may share it */
typedef struct hg_device_tensor hg_device_tensor; /* a contiguous tensor that lies there */

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

/* Vulkan devices. unsupported: this build, or this machine, has no Vulkan. */
HG_C_API hg_status* hg_device_count(int32_t* count) HG_C_CHECKED;
HG_C_API hg_status* hg_device(int32_t index, hg_device_info* info) HG_C_CHECKED;
/* `name`: an index or a part of the name; null or "": the best. `cache`: what hg_gpu_cache() gave
 * before, or null. */
HG_C_API hg_status* hg_gpu_open(const char* name, const void* cache, size_t cache_size,
                                hg_gpu** gpu) HG_C_CHECKED;
HG_C_API hg_status* hg_gpu_info(const hg_gpu* gpu, hg_device_info* info) HG_C_CHECKED;
/* Copies at most `capacity` bytes to `cache`; *size is how many there are. */
HG_C_API hg_status* hg_gpu_cache(const hg_gpu* gpu, void* cache, size_t capacity,
                                 size_t* size) HG_C_CHECKED;
HG_C_API void hg_gpu_free(hg_gpu* gpu); /* sessions that use the device keep it */
HG_C_API hg_status* hg_gpu_upload(const hg_gpu* gpu, const hg_tensor* tensor,
                                  hg_device_tensor** uploaded) HG_C_CHECKED;
/* `into` has the tensor's dtype and shape; any strides. */
HG_C_API hg_status* hg_gpu_download(const hg_gpu* gpu, const hg_device_tensor* tensor,
                                    const hg_tensor* into) HG_C_CHECKED;
/* dtype, rank and shape; data is null. */
HG_C_API hg_status* hg_device_tensor_type(const hg_device_tensor* tensor,
                                          hg_tensor* type) HG_C_CHECKED;
HG_C_API void hg_device_tensor_free(hg_device_tensor* tensor);

/* -- Sessions ---------------------------------------------------------------------------------- */

typedef struct hg_session hg_session;

/* Asks runs to end, from any thread. */
typedef struct hg_cancel hg_cancel;
HG_C_API hg_status* hg_cancel_create(hg_cancel** cancel) HG_C_CHECKED;
HG_C_API void hg_cancel_request(hg_cancel* cancel);
HG_C_API void hg_cancel_free(hg_cancel* cancel);

typedef struct hg_dim_size {
  const char* name; /* of a symbol */
  int64_t size;
} hg_dim_size;

enum { HG_DEVICE_CPU = 0, HG_DEVICE_VULKAN = 1, HG_DEVICE_AUTOMATIC = 2 };
enum { HG_PRECISION_F32 = 0, HG_PRECISION_BF16 = 1 };
enum { HG_CHECKPOINT_NONE = 0, HG_CHECKPOINT_SQRT = 1 };
enum { HG_LOG_INFO = 0, HG_LOG_WARNING = 1 };

/* hg::SessionOptions, which says more. All zero but for struct_size is the default. The callbacks
 * and their hosts live as long as the session. */
typedef struct hg_session_options {
  uint32_t struct_size;
  int32_t device;
  int32_t threads; /* 0: as many as OpenMP would take */
  int32_t precision;
  /* The host's own threads: calls task(arg, 0) ... task(arg, count - 1) and returns when all are
   * done. */
  void (*parallel_for)(void* host, int64_t count, void (*task)(void* arg, int64_t index),
                       void* arg);
  void* parallel_host;
  int32_t parallel_threads; /* 0: one */
  int32_t checkpoint;
  /* The host's own memory: 64-byte aligned, or null where there is none. */
  void* (*allocate)(void* host, size_t bytes);
  void (*deallocate)(void* host, void* memory, size_t bytes);
  void* allocator_host;
  /* Told what the session decides, a sentence at a time, by the thread that calls. */
  void (*log)(void* host, int32_t level, const char* message);
  void* log_host;
  int64_t memory_limit;
  int64_t most_rounds;
  uint64_t seed, first_run;
  const hg_dim_size* dims; /* sizes to plan for at once */
  size_t dim_count;
  const hg_gpu* gpu;
  const char* gpu_name;
  const void* tuning; /* what hg_session_tuning() gave before */
  size_t tuning_size;
  int32_t low_memory, autotune, device_outputs, profile, keep_all_values;
  int32_t reserved;
} hg_session_options;
HG_C_API void hg_session_options_init(hg_session_options* options, size_t struct_size);

HG_C_API hg_status* hg_session_create(const hg_model* model, const hg_session_options* options,
                                      hg_session** session) HG_C_CHECKED;
HG_C_API void hg_session_free(hg_session* session);

/* The memory of `tensor` is borrowed until the next call for that input. */
HG_C_API hg_status* hg_session_set_input(hg_session* session, const char* name,
                                         const hg_tensor* tensor) HG_C_CHECKED;
HG_C_API hg_status* hg_session_set_input_at(hg_session* session, int32_t index,
                                            const hg_tensor* tensor) HG_C_CHECKED;
HG_C_API hg_status* hg_session_set_device_input(hg_session* session, const char* name,
                                                const hg_device_tensor* tensor) HG_C_CHECKED;
/* Binds an output: runs leave it in `tensor`, whose memory is borrowed until the next call for that
 * output; null ends it. */
HG_C_API hg_status* hg_session_set_output(hg_session* session, const char* name,
                                          const hg_tensor* tensor) HG_C_CHECKED;
HG_C_API hg_status* hg_session_set_output_at(hg_session* session, int32_t index,
                                             const hg_tensor* tensor) HG_C_CHECKED;
/* Ends all that is borrowed. */
HG_C_API void hg_session_forget_tensors(hg_session* session);
/* Random ops draw from now on as those of a new session with this seed. */
HG_C_API void hg_session_seed(hg_session* session, uint64_t seed);
/* For the sizes of the inputs set so far, or for `dims`. hg_session_run() does it where it is not
 * done. */
HG_C_API hg_status* hg_session_plan(hg_session* session, const hg_dim_size* dims,
                                    size_t dim_count) HG_C_CHECKED;
/* `cancel` may be null. */
HG_C_API hg_status* hg_session_run(hg_session* session, const hg_cancel* cancel) HG_C_CHECKED;
/* A view into the session's memory, or into what was bound, valid until the next run or plan, never
 * after the session (docs/embedding.md). The caller set struct_size. */
HG_C_API hg_status* hg_session_output(const hg_session* session, const char* name,
                                      hg_tensor* tensor) HG_C_CHECKED;
HG_C_API hg_status* hg_session_output_at(const hg_session* session, int32_t index,
                                         hg_tensor* tensor) HG_C_CHECKED;
HG_C_API hg_status* hg_session_device_output(const hg_session* session, const char* name,
                                             hg_device_tensor** tensor) HG_C_CHECKED;
/* The present contents of a parameter or buffer; with keep_all_values, of any value. */
HG_C_API hg_status* hg_session_value(const hg_session* session, const char* name,
                                     hg_tensor* tensor) HG_C_CHECKED;
HG_C_API hg_status* hg_session_set_value(hg_session* session, const char* name,
                                         const hg_tensor* tensor) HG_C_CHECKED;

typedef struct hg_memory {
  uint32_t struct_size;
  int32_t reserved;
  int64_t peak_bytes, arena_bytes, arena_lower_bound, weights_bytes, packed_bytes, device_bytes;
  double extra_flops;
} hg_memory;
/* Of the planned sizes, exact before the first run. The caller set struct_size. */
HG_C_API hg_status* hg_session_memory(const hg_session* session, hg_memory* memory) HG_C_CHECKED;
HG_C_API double hg_session_flops(const hg_session* session);
/* Devices, kernels and passes, for people. */
HG_C_API hg_status* hg_session_report(const hg_session* session, char** text) HG_C_CHECKED;
/* Time per node of the last run, a line each: needs hg_session_options.profile. */
HG_C_API hg_status* hg_session_profile(const hg_session* session, char** text) HG_C_CHECKED;
HG_C_API hg_status* hg_session_tuning(const hg_session* session, void* tuning, size_t capacity,
                                      size_t* size) HG_C_CHECKED;

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

/* hg::Loss. Null strings are those of the default: the first output, "target". */
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

/* hg::Optimizer: torch.optim's, with its defaults. */
typedef struct hg_optimizer {
  uint32_t struct_size;
  int32_t kind;
  double lr, weight_decay, momentum, dampening, beta1, beta2, alpha, eps;
  int32_t nesterov, amsgrad, centered, maximize;
} hg_optimizer;
HG_C_API void hg_optimizer_init(hg_optimizer* optimizer, size_t struct_size, int32_t kind);

/* hg::Schedule. */
typedef struct hg_schedule {
  uint32_t struct_size;
  int32_t kind;
  int32_t by_epoch;
  int32_t reserved;
  int64_t warmup, total, period, patience, cooldown;
  double gamma, min_lr, start, end, rise, div_factor, final_div_factor, threshold;
} hg_schedule;
HG_C_API void hg_schedule_init(hg_schedule* schedule, size_t struct_size); /* constant */

/* hg::ParameterRule: NaN and -1 leave a field unsaid. */
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

/* hg::TrainOptions. Lists of structs have the struct_size of their first element. */
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

/* Tensors whose first dims count samples. */
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

/* hg::FitOptions. */
typedef struct hg_fit_options {
  uint32_t struct_size;
  int32_t shuffle, finish, reserved;
  int64_t epochs, batch, patience;
  const hg_dataset* validation;
  const char* best_path;
  int (*on_progress)(void* host, const hg_progress* progress); /* 0 ends the training */
  void* progress_host;
  const hg_cancel* cancel;
} hg_fit_options;
HG_C_API void hg_fit_options_init(hg_fit_options* options, size_t struct_size);

HG_C_API hg_status* hg_trainer_create(const hg_model* model, const hg_train_options* options,
                                      hg_trainer** trainer) HG_C_CHECKED;
HG_C_API void hg_trainer_free(hg_trainer* trainer);
/* One batch. *loss is that before the update. */
HG_C_API hg_status* hg_trainer_step(hg_trainer* trainer, const hg_dataset* batch,
                                    const hg_cancel* cancel, double* loss) HG_C_CHECKED;
HG_C_API hg_status* hg_trainer_fit(hg_trainer* trainer, const hg_dataset* data,
                                   const hg_fit_options* options) HG_C_CHECKED;
/* Loss and metrics in inference mode; `metrics` has room for as many as the options named, or is
 * null. */
HG_C_API hg_status* hg_trainer_evaluate(hg_trainer* trainer, const hg_dataset* data, int64_t batch,
                                        double* loss, double* metrics) HG_C_CHECKED;
HG_C_API void hg_trainer_end_epoch(hg_trainer* trainer, double loss);
HG_C_API void hg_trainer_set_lr(hg_trainer* trainer, double lr);
HG_C_API double hg_trainer_lr(const hg_trainer* trainer);
HG_C_API int64_t hg_trainer_updates(const hg_trainer* trainer);
HG_C_API int32_t hg_trainer_trained_count(const hg_trainer* trainer);
HG_C_API const char* hg_trainer_trained(const hg_trainer* trainer,
                                        int32_t index); /* null: no such */
HG_C_API int32_t hg_trainer_note_count(const hg_trainer* trainer);
HG_C_API const char* hg_trainer_note(const hg_trainer* trainer, int32_t index);
HG_C_API hg_status* hg_trainer_memory(const hg_trainer* trainer, hg_memory* memory) HG_C_CHECKED;
/* With the present weights, and the optimizer's state, from which training resumes exactly. */
HG_C_API hg_status* hg_trainer_model(const hg_trainer* trainer, hg_model** model) HG_C_CHECKED;
HG_C_API hg_status* hg_trainer_save(const hg_trainer* trainer, const char* path) HG_C_CHECKED;

#ifdef __cplusplus
}
#endif

#endif /* HG_C_H */
