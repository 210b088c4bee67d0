/* SPDX-License-Identifier: Apache-2.0
 * hg/c.h from C99: every function compared with plain loops, and each error. */
#include "hg/c.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/c/model.h"

static int failures = 0;
#define EXPECT(condition)                                                     \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                             \
    }                                                                         \
  } while (0)
#define EXPECT_OK(call) expect(call, HG_OK, "", __LINE__)
#define EXPECT_FAILS(code, part, call) expect(call, code, part, __LINE__)

static int expect(hg_status* status, hg_code code, const char* part, int line) {
  const int as_expected =
      hg_status_code(status) == code && strstr(hg_status_message(status), part) != NULL;
  if (!as_expected) {
    fprintf(stderr, "line %d: %s: '%s'; expected %s with '%s'\n", line,
            hg_code_name(hg_status_code(status)), hg_status_message(status), hg_code_name(code),
            part);
    ++failures;
  }
  hg_status_free(status);
  return as_expected;
}

static const float kW[6] = {0.5f, -1, 2, 0.25f, 3, -0.75f}, kB[2] = {0.125f, -2};

static void linear(const float* w, const float* b, const float* x, int n, float* y) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 2; ++j) {
      y[i * 2 + j] = b[j];
      for (int k = 0; k < 3; ++k) y[i * 2 + j] += x[i * 3 + k] * w[j * 3 + k];
    }
}

static int is_near(const float* a, const float* b, int count) {
  for (int i = 0; i < count; ++i)
    if (!(fabsf(a[i] - b[i]) <= 1e-5f)) return 0;
  return 1;
}

static hg_tensor tensor_of(void* data, int64_t rows, int64_t columns) {
  const int64_t shape[2] = {rows, columns};
  hg_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  EXPECT_OK(hg_tensor_view(&tensor, sizeof tensor, data, HG_F32, 2, shape));
  return tensor;
}

static unsigned char g_room[(1 << 16) + 64], *g_file; /* from a multiple of 64 */
static size_t g_size;

static hg_model* read_model(void) {
  hg_model* model = NULL;
  EXPECT_OK(hg_model_read(g_file, g_size, NULL, &model));
  return model;
}

static void test_words(void) {
  EXPECT(strcmp(hg_version(), "0.2.0") == 0);
  EXPECT(strcmp(hg_code_name(HG_OK), "ok") == 0);
  EXPECT(strcmp(hg_code_name(HG_INTERNAL), "internal") == 0);
  EXPECT(strcmp(hg_code_name(99), "") == 0);
  EXPECT(hg_status_code(NULL) == HG_OK && hg_status_message(NULL)[0] == 0);
  EXPECT(strcmp(hg_dtype_name(HG_BF16), "bf16") == 0 && hg_dtype_bytes(HG_BF16) == 2);
  EXPECT(strcmp(hg_dtype_name(HG_C128), "c128") == 0 && hg_dtype_bytes(HG_C128) == 16);
  EXPECT(strcmp(hg_dtype_name(12), "") == 0 && hg_dtype_bytes(-1) == 0);
}

static void test_tensors(void) {
  const int64_t shape[3] = {2, 0, 5}, huge[2] = {INT64_MAX / 2, 3}, negative[1] = {-1};
  hg_tensor t;
  EXPECT_OK(hg_tensor_view(&t, sizeof t, NULL, HG_I64, 3, shape));
  EXPECT(t.struct_size == sizeof t && t.rank == 3);
  EXPECT(hg_tensor_count(&t) == 0);
  EXPECT_OK(hg_tensor_view(&t, sizeof t, NULL, HG_I64, 0, NULL));
  EXPECT(hg_tensor_count(&t) == 1);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "more bytes than 2^63",
               hg_tensor_view(&t, sizeof t, NULL, HG_F32, 2, huge));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "shape[0] is -1",
               hg_tensor_view(&t, sizeof t, NULL, HG_F32, 1, negative));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "rank is 13",
               hg_tensor_view(&t, sizeof t, NULL, HG_F32, 13, shape));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "is not a dtype",
               hg_tensor_view(&t, sizeof t, NULL, 77, 1, shape));
  EXPECT(hg_tensor_count(NULL) == -1);
  /* A size that no header gave it, which would leave another tensor behind. */
  for (size_t size = 0; size < sizeof t; size += size < 8 ? 4 : 8) {
    EXPECT_FAILS(HG_INVALID_ARGUMENT, "hg_tensor.struct_size is",
                 hg_tensor_view(&t, size, NULL, HG_F32, 2, shape));
    EXPECT_OK(hg_tensor_view(&t, sizeof t, NULL, HG_F32, 2, shape));
    t.struct_size = (uint32_t)size;
    EXPECT(hg_tensor_count(&t) == -1);
  }
}

static void test_loading(const char* folder) {
  char path[4096];
  hg_model *model = NULL, *again = NULL;
  hg_load_options options;
  hg_load_options_init(&options, sizeof options);
  EXPECT(options.struct_size == sizeof options);
  EXPECT_FAILS(HG_NOT_FOUND, "cannot open", hg_model_load("/nowhere.hgm", NULL, &model));
  EXPECT(model == NULL);
  EXPECT_FAILS(HG_CORRUPT_MODEL, "12 bytes", hg_model_read(g_file, 12, NULL, &model));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "path is null", hg_model_load(NULL, NULL, &model));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "model is null", hg_model_load("x", NULL, NULL));
  EXPECT_OK(hg_model_borrow(g_file, g_size, &options, &model));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "multiple of", hg_model_borrow(g_file + 1, 100, NULL, &again));
  snprintf(path, sizeof path, "%s/c_test.hgm", folder);
  EXPECT_OK(hg_model_save(model, path));
  options.verify_weights = 1;
  for (options.copy = 0; options.copy < 2; ++options.copy) {
    EXPECT_OK(hg_model_load(path, &options, &again));
    EXPECT(hg_model_node_count(again) == hg_model_node_count(model));
    hg_model_free(again);
    options.max_bytes = 100;
    EXPECT_FAILS(HG_CORRUPT_MODEL, "more than max_bytes, 100",
                 hg_model_load(path, &options, &again));
    EXPECT(again == NULL);
    options.max_bytes = 0;
  }
  options.max_dims = 1;
  EXPECT_FAILS(HG_CORRUPT_MODEL, "max_dims", hg_model_read(g_file, g_size, &options, &again));
  options.max_dims = -1;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "not negative",
               hg_model_read(g_file, g_size, &options, &again));
  EXPECT_FAILS(HG_NOT_FOUND, "no-such-folder", hg_model_save(model, "/no-such-folder/x.hgm"));
  hg_model_free(model);
  hg_model_free(NULL);
  remove(path);
}

/* A header of the future, whose struct is larger. */
struct later {
  hg_load_options options;
  int64_t more;
};

static void test_sized_structs(void) {
  hg_model* model = NULL;
  struct later later;
  memset(&later, 0, sizeof later);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "struct_size is 0",
               hg_model_read(g_file, g_size, &later.options, &model));
  hg_load_options_init(&later.options, sizeof later);
  EXPECT(later.options.struct_size == sizeof later);
  EXPECT_OK(hg_model_read(g_file, g_size, &later.options, &model));
  hg_model_free(model);
  later.more = 1;
  EXPECT_FAILS(HG_UNSUPPORTED, "sets fields that this library does not have",
               hg_model_read(g_file, g_size, &later.options, &model));
  later.options.struct_size = 8; /* an early header, which had one option */
  later.options.max_bytes = 1;
  EXPECT_OK(hg_model_read(g_file, g_size, &later.options, &model));
  hg_model_free(model);
}

static void test_inspecting(void) {
  hg_model* model = read_model();
  hg_value_info value;
  hg_state_info state;
  hg_node_info node;
  char* text = NULL;
  const void* bytes = NULL;
  size_t size = 0;
  int found = 0;
  memset(&value, 0, sizeof value);
  memset(&state, 0, sizeof state);
  memset(&node, 0, sizeof node);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "struct_size is 0", hg_model_input(model, 0, &value));
  value.struct_size = sizeof value;
  state.struct_size = sizeof state;
  node.struct_size = sizeof node;
  EXPECT(hg_model_input_count(model) == 1 && hg_model_output_count(model) == 1);
  EXPECT_OK(hg_model_input(model, 0, &value));
  EXPECT(strcmp(value.name, "x") == 0 && strcmp(value.type, "f32[n, 3]") == 0);
  EXPECT(value.rank == 2 && value.shape[0] == -1 && value.shape[1] == 3);
  EXPECT(strcmp(value.dims[0], "n") == 0 && strcmp(value.dims[1], "3") == 0);
  EXPECT_OK(hg_model_output(model, 0, &value));
  EXPECT(strcmp(value.name, "y") == 0 && value.shape[1] == 2);
  EXPECT_FAILS(HG_NOT_FOUND, "no output 1", hg_model_output(model, 1, &value));
  EXPECT_FAILS(HG_NOT_FOUND, "no input -1", hg_model_input(model, -1, &value));
  EXPECT(hg_model_symbol_count(model) == 1 && strcmp(hg_model_symbol(model, 0), "n") == 0);
  EXPECT(hg_model_symbol(model, 1) == NULL);
  for (int32_t i = 0; i < hg_model_state_count(model); ++i) {
    EXPECT_OK(hg_model_state(model, i, &state));
    if (strcmp(state.name, "w") != 0) continue;
    found = state.kind == HG_PARAMETER && state.requires_grad && state.tensor.rank == 2 &&
            memcmp(state.tensor.data, kW, sizeof kW) == 0;
  }
  EXPECT(found);
  EXPECT_OK(hg_model_node(model, 0, &node));
  EXPECT(strcmp(node.op, "linear") == 0 && node.input_count == 4 && node.output_count == 1);
  EXPECT(strcmp(node.module, "head") == 0 && strcmp(node.source, "model.py:7") == 0);
  EXPECT_FAILS(HG_NOT_FOUND, "no node", hg_model_node(model, 1000, &node));
  EXPECT(hg_model_producer(model) != NULL && hg_model_source(model) != NULL);
  EXPECT_OK(hg_model_attachment(model, "tokenizer.json", &bytes, &size));
  EXPECT(size == 3 && memcmp(bytes, "{\0}", 3) == 0);
  EXPECT_FAILS(HG_NOT_FOUND, "no attachment 'x'", hg_model_attachment(model, "x", &bytes, &size));
  EXPECT(bytes == NULL && size == 0);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "name is null",
               hg_model_attachment(model, NULL, &bytes, &size));
  EXPECT_OK(hg_model_text(model, &text));
  EXPECT(text != NULL && strstr(text, "linear") != NULL);
  hg_text_free(text);
  EXPECT(hg_model_input_count(NULL) == 0 && hg_model_node_count(NULL) == 0);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "model is null", hg_model_text(NULL, &text));
  hg_model_free(model);
}

static void test_entries(void) {
  unsigned char file[1 << 14];
  float x[2] = {1.5f, -2}, seven[2] = {7, 7};
  const int64_t shape[1] = {2};
  const float twice[2] = {3, -4};
  hg_model *model = NULL, *entry = NULL;
  hg_states* states = NULL;
  hg_session *add = NULL, *read = NULL;
  hg_session_options options;
  hg_tensor in, out;
  memset(&in, 0, sizeof in);
  memset(&out, 0, sizeof out);
  out.struct_size = sizeof out;
  EXPECT_OK(hg_tensor_view(&in, sizeof in, x, HG_F32, 1, shape));
  EXPECT_OK(hg_model_read(file, hg_test_entries(file, sizeof file), NULL, &model));
  EXPECT(hg_model_entry_count(model) == 2 && hg_model_entry_count(NULL) == 0);
  EXPECT(strcmp(hg_model_entry_name(model, 1), "read") == 0);
  EXPECT(hg_model_entry_name(model, 2) == NULL && hg_model_entry_name(model, -1) == NULL);
  EXPECT_FAILS(HG_NOT_FOUND, "there are add, read", hg_model_entry(model, "sub", &entry));
  EXPECT(entry == NULL);
  EXPECT_OK(hg_model_entry(model, "add", &entry));
  EXPECT(hg_model_input_count(entry) == 1 && hg_model_entry_count(entry) == 0);
  hg_model_free(entry);
  hg_session_options_init(&options, sizeof options);
  EXPECT_FAILS(HG_UNSUPPORTED, "choose one by its name", hg_session_create(model, &options, &add));

  EXPECT_FAILS(HG_INVALID_ARGUMENT, "model is null", hg_states_create(NULL, &states));
  EXPECT_OK(hg_states_create(model, &states));
  EXPECT(hg_states_count(states) == 1 && strcmp(hg_states_name(states, 0), "total") == 0);
  EXPECT(hg_states_name(states, 1) == NULL && hg_states_count(NULL) == 0);
  options.states = states;
  options.entry = "add";
  EXPECT_OK(hg_session_create(model, &options, &add));
  options.entry = "read";
  EXPECT_OK(hg_session_create(model, &options, &read));
  EXPECT_OK(hg_session_set_input(add, "x", &in));
  EXPECT_OK(hg_session_run(add, NULL));
  EXPECT_OK(hg_session_run(add, NULL));
  EXPECT_OK(hg_session_run(read, NULL));
  EXPECT_OK(hg_session_output(read, "y", &out));
  EXPECT(memcmp(out.data, twice, sizeof twice) == 0);
  in.data = seven;
  EXPECT_OK(hg_states_set_value(states, "total", &in));
  EXPECT_OK(hg_states_value(states, "total", &out));
  EXPECT(memcmp(out.data, seven, sizeof seven) == 0);
  EXPECT_FAILS(HG_NOT_FOUND, "no shared state 'sum'", hg_states_value(states, "sum", &out));
  hg_states_reset(states);
  EXPECT_OK(hg_states_value(states, "total", &out));
  EXPECT(((float*)out.data)[0] == 0);
  hg_states_free(states);
  hg_states_free(NULL);
  EXPECT_OK(hg_session_run(read, NULL)); /* the sessions keep the states */
  hg_session_free(add);
  hg_session_free(read);
  hg_model_free(model);
}

static int64_t g_live, g_blocks, g_tasks, g_lines;
static void* allocate(void* host, size_t bytes) {
  EXPECT(host == &g_live);
  void* memory = NULL;
  if (posix_memalign(&memory, 64, bytes) != 0) return NULL;
  ++g_live;
  ++g_blocks;
  return memory;
}
static void deallocate(void* host, void* memory, size_t bytes) {
  (void)host;
  (void)bytes;
  if (memory != NULL) --g_live;
  free(memory);
}
static void parallel_for(void* host, int64_t count, void (*task)(void*, int64_t), void* arg) {
  EXPECT(host == &g_tasks);
  for (int64_t i = count; i-- > 0;) task(arg, i);
  g_tasks += count;
}
static void log_line(void* host, int32_t level, const char* message) {
  EXPECT(host == &g_lines && (level == HG_LOG_INFO || level == HG_LOG_WARNING) && message[0] != 0);
  ++g_lines;
}

static void test_running(void) {
  float x[15], y[10], expected[10], wide[24];
  hg_model* model = read_model();
  hg_session* session = NULL;
  hg_session_options options;
  hg_tensor tensor, out;
  hg_memory memory;
  hg_cancel* cancel = NULL;
  hg_dim_size dim = {"n", 4};
  hg_size_range range = {"n", 3, 5};
  char* text = NULL;
  int64_t range_bytes = 0;
  memset(&out, 0, sizeof out);
  memset(&memory, 0, sizeof memory);
  out.struct_size = sizeof out;
  memory.struct_size = sizeof memory;
  hg_session_options_init(&options, sizeof options);
  options.allocate = allocate;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "only one of", hg_session_create(model, &options, &session));
  options.deallocate = deallocate;
  options.allocator_host = &g_live;
  options.parallel_for = parallel_for;
  options.parallel_host = &g_tasks;
  options.parallel_threads = 3;
  options.log = log_line;
  options.log_host = &g_lines;
  options.profile = 1;
  options.range_count = 1;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "ranges is null", hg_session_create(model, &options, &session));
  options.ranges = &range;
  range.name = "m";
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "'m'", hg_session_create(model, &options, &session));
  range.name = "n";
  EXPECT_OK(hg_session_create(model, &options, &session));
  hg_model_free(model);                           /* a session keeps what it needs */
  EXPECT_OK(hg_session_memory(session, &memory)); /* the range is planned */
  range_bytes = memory.arena_bytes;
  EXPECT(range_bytes > 0);
  EXPECT_OK(hg_session_plan(session, &dim, 1));
  EXPECT_OK(hg_session_memory(session, &memory));
  EXPECT(memory.mapped_bytes == 0);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "option packed", hg_session_save_packed(session));
  EXPECT(memory.arena_bytes == range_bytes);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "", hg_session_run(session, NULL)); /* no input */
  for (int i = 0; i < 15; ++i) x[i] = (float)(i % 7) - 2.5f;
  for (int n = 5; n >= 1; n -= 2) {
    linear(kW, kB, x, n, expected);
    tensor = tensor_of(x, n, 3);
    EXPECT_OK(hg_session_set_input(session, "x", &tensor));
    EXPECT_OK(hg_session_run(session, NULL));
    EXPECT_OK(hg_session_output(session, "y", &out));
    EXPECT(out.dtype == HG_F32 && out.rank == 2 && out.shape[0] == n && out.shape[1] == 2);
    EXPECT(is_near((const float*)out.data, expected, n * 2));
  }
  for (int i = 0; i < 4; ++i) /* strides: rows of 6, read backwards */
    for (int k = 0; k < 3; ++k) wide[i * 6 + 2 - k] = x[i * 3 + k];
  linear(kW, kB, x, 4, expected);
  tensor = tensor_of(wide + 2, 4, 3);
  tensor.strides[0] = 6;
  tensor.strides[1] = -1;
  EXPECT_OK(hg_session_set_input_at(session, 0, &tensor));
  out = tensor_of(y, 4, 2);
  EXPECT_OK(hg_session_set_output(session, "y", &out));
  EXPECT_OK(hg_session_run(session, NULL));
  EXPECT(is_near(y, expected, 8));
  EXPECT_OK(hg_session_set_output_at(session, 0, NULL));
  EXPECT_OK(hg_session_report(session, &text));
  EXPECT(strstr(text, "linear") != NULL);
  hg_text_free(text);
  EXPECT_OK(hg_session_profile(session, &text));
  EXPECT(strstr(text, "linear") != NULL);
  hg_text_free(text);
  EXPECT(hg_session_flops(session) >= 4 * 2 * 3);
  EXPECT_OK(hg_session_value(session, "w", &out));
  EXPECT(memcmp(out.data, kW, sizeof kW) == 0);

  EXPECT_OK(hg_cancel_create(&cancel));
  EXPECT_OK(hg_session_run(session, cancel));
  hg_cancel_request(cancel);
  EXPECT_FAILS(HG_CANCELLED, "", hg_session_run(session, cancel));
  hg_cancel_free(cancel);
  EXPECT_OK(hg_session_run(session, NULL));

  EXPECT_FAILS(HG_NOT_FOUND, "no input 'z'", hg_session_set_input(session, "z", &tensor));
  EXPECT_FAILS(HG_NOT_FOUND, "no input 1", hg_session_set_input_at(session, 1, &tensor));
  EXPECT_FAILS(HG_NOT_FOUND, "no output 'z'", hg_session_output(session, "z", &out));
  out.struct_size = 24;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "hg_tensor.struct_size is 24",
               hg_session_output(session, "y", &out));
  tensor.data = NULL;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "is null", hg_session_set_input(session, "x", &tensor));
  tensor = tensor_of(x, 2, 2);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "x", hg_session_set_input(session, "x", &tensor));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "null", hg_session_set_input(session, "x", NULL));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "null", hg_session_run(NULL, NULL));
  hg_session_forget_tensors(session);
  hg_session_free(session);
  hg_session_free(NULL);
  EXPECT(g_blocks > 0 && g_live == 0);
  EXPECT(g_lines > 0);
}

static void draw(hg_session* session, float* numbers) {
  hg_tensor out;
  memset(&out, 0, sizeof out);
  out.struct_size = sizeof out;
  EXPECT_OK(hg_session_run(session, NULL));
  EXPECT_OK(hg_session_output(session, "y", &out));
  memcpy(numbers, out.data, 8 * sizeof(float));
}

static void test_random_ops(void) {
  static unsigned char file[1 << 16];
  float first[8], second[8], again[8];
  hg_model* model = NULL;
  hg_session *session = NULL, *other = NULL;
  hg_session_options options;
  EXPECT_OK(hg_model_read(file, hg_test_random_model(file, sizeof file), NULL, &model));
  hg_session_options_init(&options, sizeof options);
  options.seed = 7;
  EXPECT_OK(hg_session_create(model, &options, &session));
  EXPECT_OK(hg_session_create(model, NULL, &other));
  draw(session, first);
  draw(session, second);
  EXPECT(memcmp(first, second, sizeof first) != 0);
  hg_session_seed(session, 7);
  draw(session, again);
  EXPECT(memcmp(first, again, sizeof first) == 0);
  draw(other, again);
  EXPECT(memcmp(first, again, sizeof first) != 0);
  hg_session_seed(other, 7);
  draw(other, again);
  EXPECT(memcmp(first, again, sizeof first) == 0);
  draw(other, again);
  EXPECT(memcmp(second, again, sizeof second) == 0);
  hg_session_seed(NULL, 7);
  hg_session_free(session);
  hg_session_free(other);
  hg_model_free(model);
}

/* y = w x + b, plus x[0] for each adapter. */
static void test_adapters(void) {
  static unsigned char file[1 << 16];
  float x[3] = {1, -2, 0.5f}, y[2], want[2];
  hg_model *model = read_model(), *adapter = NULL, *adapted = NULL;
  const hg_model* both[2] = {NULL, NULL};
  hg_session* session = NULL;
  hg_tensor in = tensor_of(x, 1, 3), out = tensor_of(y, 1, 2);
  EXPECT_OK(hg_model_read(file, hg_test_adapter(file, sizeof file), NULL, &adapter));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "adapters[0] is null",
               hg_model_apply_adapters(model, both, 1, 0, &adapted));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "adapters is null",
               hg_model_apply_adapters(model, NULL, 1, 0, &adapted));
  both[0] = both[1] = adapter;
  EXPECT_OK(hg_model_apply_adapters(model, both, 1, 2, &adapted));
  EXPECT_OK(hg_session_create(adapted, NULL, &session));
  hg_model_free(adapted);
  linear(kW, kB, x, 1, want);
  for (size_t count = 0; count <= 2; ++count) {
    EXPECT_OK(hg_session_set_adapters(session, both, count));
    EXPECT_OK(hg_session_set_input(session, "x", &in));
    EXPECT_OK(hg_session_set_output(session, "y", &out));
    EXPECT_OK(hg_session_run(session, NULL));
    EXPECT(is_near(y, want, 2));
    for (int i = 0; i < 2; ++i) want[i] += x[0];
  }
  hg_session_free(session);
  EXPECT_OK(hg_session_create(model, NULL, &session));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "does not adapt", hg_session_set_adapters(session, both, 1));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "session is null", hg_session_set_adapters(NULL, both, 1));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "generator is null", hg_generator_set_adapters(NULL, both, 1));
  hg_session_free(session);
  hg_model_free(adapter);
  hg_model_free(model);
}

static int stop_at_three(void* host, const hg_progress* progress) {
  double* last = (double*)host;
  if (!progress->is_epoch) *last = progress->loss;
  return progress->step < 3;
}

/* One step of SGD on the mean squared error, by hand. */
static double sgd_step(float* w, float* b, const float* x, const float* t, int n, float lr) {
  float y[64], dw[6] = {0}, db[2] = {0};
  double loss = 0;
  linear(w, b, x, n, y);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 2; ++j) {
      const float e = y[i * 2 + j] - t[i * 2 + j], d = 2 * e / (float)(n * 2);
      loss += (double)(e * e) / (n * 2);
      db[j] += d;
      for (int k = 0; k < 3; ++k) dw[j * 3 + k] += d * x[i * 3 + k];
    }
  for (int i = 0; i < 6; ++i) w[i] -= lr * dw[i];
  for (int j = 0; j < 2; ++j) b[j] -= lr * db[j];
  return loss;
}

static void test_training(const char* folder) {
  char path[4096];
  float x[24], t[16], w[6], b[2];
  hg_model *model = read_model(), *trained = NULL;
  hg_trainer* trainer = NULL;
  hg_optimizer sgd;
  hg_train_options options;
  hg_fit_options fit;
  hg_dataset data;
  hg_tensor input, target;
  hg_state_info state;
  hg_metric metric;
  hg_memory memory;
  double loss = 0, expected = 0, last = 0, error = 0;
  memcpy(w, kW, sizeof w);
  memcpy(b, kB, sizeof b);
  for (int i = 0; i < 24; ++i) x[i] = (float)((i * 5) % 9) / 4 - 1;
  for (int i = 0; i < 16; ++i) t[i] = (float)((i * 3) % 5) - 2;
  input = tensor_of(x, 8, 3);
  target = tensor_of(t, 8, 2);
  hg_dataset_init(&data, sizeof data);
  data.inputs = &input;
  data.targets = &target;
  data.input_count = data.target_count = 1;
  hg_optimizer_init(&sgd, sizeof sgd, HG_SGD);
  sgd.lr = 0.0625;
  hg_metric_init(&metric, sizeof metric);
  metric.kind = HG_MEAN_ERROR;
  hg_train_options_init(&options, sizeof options);
  options.optimizer = &sgd;
  options.metrics = &metric;
  options.metric_count = 1;
  metric.struct_size = sizeof metric + 1; /* the next of a list would not be whole */
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "hg_metric.struct_size is",
               hg_trainer_create(model, &options, &trainer));
  metric.struct_size = sizeof metric;
  EXPECT_OK(hg_trainer_create(model, &options, &trainer));
  EXPECT(hg_trainer_trained_count(trainer) == 2 && hg_trainer_trained(trainer, 2) == NULL);
  for (int i = 0; i < 4; ++i) {
    expected = sgd_step(w, b, x, t, 8, 0.0625f);
    EXPECT_OK(hg_trainer_step(trainer, &data, NULL, &loss));
    EXPECT(fabs(loss - expected) < 1e-5);
  }
  memset(&memory, 0, sizeof memory);
  memory.struct_size = sizeof memory;
  EXPECT_OK(hg_trainer_memory(trainer, &memory));
  EXPECT(memory.arena_bytes > 0 && hg_trainer_updates(trainer) == 4);
  hg_trainer_set_lr(trainer, 0.03125);
  EXPECT(hg_trainer_lr(trainer) == 0.03125);
  hg_fit_options_init(&fit, sizeof fit);
  fit.epochs = 5;
  fit.batch = 0;
  fit.shuffle = 0;
  fit.on_progress = stop_at_three;
  fit.progress_host = &last;
  EXPECT_OK(hg_trainer_fit(trainer, &data, &fit));
  EXPECT(hg_trainer_updates(trainer) > 4 && last > 0 && last < expected);
  EXPECT_OK(hg_trainer_evaluate(trainer, &data, 8, &loss, &error));
  EXPECT(loss > 0 && loss < expected && error > 0);
  snprintf(path, sizeof path, "%s/c_test_trained.hgm", folder);
  EXPECT_OK(hg_trainer_save(trainer, path));
  EXPECT_OK(hg_trainer_model(trainer, &trained));
  hg_model_free(trained);
  hg_trainer_free(trainer);
  EXPECT_OK(hg_model_load(path, NULL, &trained));
  memset(&state, 0, sizeof state);
  state.struct_size = sizeof state;
  EXPECT_OK(hg_model_state(trained, 0, &state));
  EXPECT(memcmp(state.tensor.data, kW, sizeof(float)) != 0);
  EXPECT_OK(hg_trainer_create(trained, &options, &trainer));
  EXPECT(hg_trainer_updates(trainer) > 4); /* resumed */
  hg_trainer_free(trainer);
  hg_model_free(trained);
  remove(path);

  hg_parameter_rule rule;
  hg_parameter_rule_init(&rule, sizeof rule);
  rule.pattern = "b";
  rule.frozen = 1;
  options.rules = &rule;
  options.rule_count = 1;
  EXPECT_OK(hg_trainer_create(model, &options, &trainer));
  EXPECT(hg_trainer_trained_count(trainer) == 1 &&
         strcmp(hg_trainer_trained(trainer, 0), "w") == 0);
  hg_trainer_free(trainer);
  rule.pattern = "nothing.like.it";
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "nothing.like.it",
               hg_trainer_create(model, &options, &trainer));
  sgd.kind = 9;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "hg_optimizer.kind is 9",
               hg_trainer_create(model, &options, &trainer));
  EXPECT(trainer == NULL);
  hg_trainer_free(NULL);
  hg_model_free(model);
}

static void test_devices(void) {
  int32_t count = 0;
  float x[6] = {1, 2, 3, -1, 0.5f, 4}, expected[4];
  hg_device_info info;
  hg_model* model = read_model();
  hg_session* session = NULL;
  hg_session_options options;
  hg_gpu* gpu = NULL;
  hg_device_tensor* there = NULL;
  hg_tensor tensor = tensor_of(x, 2, 3), out;
  hg_status* status = hg_device_count(&count);
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  memset(&out, 0, sizeof out);
  out.struct_size = sizeof out;
  if (status != NULL) { /* none: it is said, and nothing crashes */
    EXPECT(hg_status_code(status) == HG_UNSUPPORTED);
    EXPECT(hg_status_message(status)[0] != 0);
    hg_status_free(status);
    status = hg_gpu_open(NULL, NULL, 0, &gpu);
    EXPECT(status != NULL && gpu == NULL);
    hg_status_free(status);
    hg_model_free(model);
    return;
  }
  EXPECT(count > 0);
  EXPECT_OK(hg_device(0, &info));
  EXPECT(info.name[0] != 0);
  EXPECT_FAILS(HG_NOT_FOUND, "no device", hg_device(count, &info));
  EXPECT_OK(hg_gpu_open("0", NULL, 0, &gpu));
  EXPECT_OK(hg_gpu_info(gpu, &info));
  hg_session_options_init(&options, sizeof options);
  options.device = HG_DEVICE_VULKAN;
  options.gpu = gpu;
  EXPECT_OK(hg_session_create(model, &options, &session));
  EXPECT_OK(hg_gpu_upload(gpu, &tensor, &there));
  EXPECT_OK(hg_session_set_device_input(session, "x", there));
  EXPECT_OK(hg_session_run(session, NULL));
  EXPECT_OK(hg_session_output_at(session, 0, &out));
  linear(kW, kB, x, 2, expected);
  EXPECT(is_near((const float*)out.data, expected, 4));
  EXPECT_OK(hg_device_tensor_type(there, &out));
  EXPECT(out.data == NULL && out.shape[1] == 3);
  memset(x, 0, sizeof x);
  EXPECT_OK(hg_gpu_download(gpu, there, &tensor));
  EXPECT(x[5] == 4);
  tensor = tensor_of(x, 1, 3);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "`into`", hg_gpu_download(gpu, there, &tensor));
  hg_device_tensor_free(there);
  hg_session_free(session);
  hg_gpu_free(gpu);
  hg_model_free(model);
}

static void test_generation(void) {
  static unsigned char bytes[1 << 16];
  const size_t size = hg_test_words_model(bytes, sizeof bytes);
  EXPECT(size > 0);
  hg_model *model = NULL, *other = read_model();
  EXPECT_OK(hg_model_read(bytes, size, NULL, &model));
  hg_generator* generator = NULL;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "model is null", hg_generator_create(NULL, NULL, &generator));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "generator is null", hg_generator_create(model, NULL, NULL));
  EXPECT_FAILS(HG_UNSUPPORTED, "the input 'x'", hg_generator_create(other, NULL, &generator));
  EXPECT(generator == NULL);
  EXPECT_OK(hg_generator_create(model, NULL, &generator));
  static unsigned char file[1 << 16];
  hg_model* adapter = NULL;
  EXPECT_OK(hg_model_read(file, hg_test_adapter(file, sizeof file), NULL, &adapter));
  const hg_model* const adapters[1] = {adapter};
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "does not adapt",
               hg_generator_set_adapters(generator, adapters, 1));
  EXPECT_OK(hg_generator_set_adapters(generator, NULL, 0));
  hg_model_free(adapter);
  hg_model_free(other);
  hg_model_free(model); /* the generator has what it needs */

  hg_generate_options options;
  hg_generate_options_init(&options, sizeof options);
  EXPECT(options.max_tokens == 128 && options.top_p == 1 && options.repetition_penalty == 1);
  const int32_t first[1] = {1}, second[1] = {3}, stop[1] = {0};
  const hg_token_ids prompts[2] = {{first, 1}, {second, 1}};
  size_t count = 9;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "begin()", hg_generator_step(generator, NULL, &count));
  EXPECT(count == 0);
  options.max_tokens = 4;
  options.stop_ids = stop;
  options.stop_id_count = 1;
  options.log_probabilities = 1;
  EXPECT_OK(hg_generator_begin(generator, prompts, 2, &options));
  hg_generated_token token;
  memset(&token, 0, sizeof token);
  token.struct_size = sizeof token;
  EXPECT_OK(hg_generator_step(generator, NULL, &count));
  EXPECT(count == 2);
  EXPECT_OK(hg_generator_token(generator, 1, &token));
  EXPECT(token.prompt == 1 && token.id == 4);
  EXPECT(fabs(token.log_probability - (2 - log(exp(2.0) + 4))) < 1e-6);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "no token 2 among 2", hg_generator_token(generator, 2, &token));
  EXPECT_OK(hg_generator_step(generator, NULL, &count)); /* 3, and the stop id */
  EXPECT(count == 1);
  EXPECT_OK(hg_generator_end(generator, 0));
  EXPECT_OK(hg_generator_step(generator, NULL, &count));
  EXPECT(count == 0);
  const int32_t* ids = NULL;
  int32_t finish = HG_FINISH_LENGTH;
  EXPECT_OK(hg_generator_sequence(generator, 0, &ids, &count, &finish));
  EXPECT(count == 2 && ids[0] == 2 && ids[1] == 3 && finish == HG_FINISH_STOP);
  EXPECT_OK(hg_generator_sequence(generator, 1, &ids, &count, NULL));
  EXPECT(count == 1 && ids[0] == 4);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "no prompt 2 among 2",
               hg_generator_sequence(generator, 2, &ids, &count, NULL));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "no sequence -1 among 2", hg_generator_end(generator, -1));

  EXPECT_OK(hg_generator_begin(generator, prompts, 1, NULL)); /* the defaults */
  EXPECT_OK(hg_generator_step(generator, NULL, &count));
  EXPECT_OK(hg_generator_sequence(generator, 0, &ids, &count, &finish));
  EXPECT(count == 1 && ids[0] == 2 && finish == HG_FINISH_LENGTH);
  hg_cancel* cancel = NULL;
  EXPECT_OK(hg_cancel_create(&cancel));
  hg_cancel_request(cancel);
  EXPECT_FAILS(HG_CANCELLED, "", hg_generator_step(generator, cancel, &count));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "begin()", hg_generator_step(generator, NULL, &count));
  hg_cancel_free(cancel);

  const hg_token_ids empty = {NULL, 0}, wrong = {NULL, 2};
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "no prompts", hg_generator_begin(generator, NULL, 0, NULL));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "prompts is null and has 1 entries",
               hg_generator_begin(generator, NULL, 1, NULL));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "prompt 0 is empty",
               hg_generator_begin(generator, &empty, 1, NULL));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "prompts[0].ids is null and has 2 entries",
               hg_generator_begin(generator, &wrong, 1, NULL));
  options.temperature = -1;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "temperature is -1",
               hg_generator_begin(generator, prompts, 1, &options));
  options.stop_ids = NULL;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "hg_generate_options.stop_ids is null",
               hg_generator_begin(generator, prompts, 1, &options));
  hg_generator_free(generator);
  hg_generator_free(NULL);
}

static int32_t only_two(void* host, int64_t prompt, const int32_t* ids, size_t id_count,
                        float* logits, size_t logit_count) {
  size_t i;
  *(int64_t*)host += (int64_t)id_count;
  for (i = 0; i < logit_count; ++i)
    if (i != 2) logits[i] = -INFINITY;
  return prompt == 0 && ids[0] == 1 ? 0 : 1;
}
static int32_t refuse(void* host, int64_t prompt, const int32_t* ids, size_t id_count,
                      float* logits, size_t logit_count) {
  (void)host, (void)prompt, (void)ids, (void)id_count, (void)logits, (void)logit_count;
  return 7;
}

static hg_model* words_model(void) {
  static unsigned char bytes[1 << 16];
  hg_model* model = NULL;
  EXPECT_OK(hg_model_read(bytes, hg_test_words_model(bytes, sizeof bytes), NULL, &model));
  return model;
}

static void test_generate_options(void) {
  hg_model* model = words_model();
  hg_generator *generator = NULL, *draft = NULL;
  EXPECT_OK(hg_generator_create(model, NULL, &generator));
  EXPECT_OK(hg_generator_create(model, NULL, &draft));
  hg_model_free(model);
  const int32_t first[1] = {1}, *ids = NULL;
  const hg_token_ids prompt = {first, 1};
  size_t count = 0;
  int64_t seen = 0;
  hg_generate_options options;
  hg_generate_options_init(&options, sizeof options);
  EXPECT(options.num_beams == 1 && options.num_return_sequences == 1 && options.draft_tokens == 5);
  options.max_tokens = 3;
  options.num_beams = 2;
  options.num_return_sequences = 2;
  options.early_stopping = HG_EARLY_STOPPING_YES;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "num_beams is 2",
               hg_generator_begin(generator, &prompt, 1, &options));
  EXPECT_OK(hg_generator_generate(generator, &prompt, 1, &options, NULL));
  EXPECT_OK(hg_generator_sequence(generator, 0, &ids, &count, NULL));
  EXPECT(count == 3 && ids[0] == 2 && ids[1] == 3 && ids[2] == 4);
  EXPECT_OK(hg_generator_sequence(generator, 1, &ids, &count, NULL));
  options.early_stopping = 3;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "early_stopping is 3",
               hg_generator_generate(generator, &prompt, 1, &options, NULL));
  hg_generate_options_init(&options, sizeof options);
  options.max_tokens = 9;
  options.draft = draft;
  EXPECT_OK(hg_generator_begin(generator, &prompt, 1, &options));
  EXPECT_OK(hg_generator_step(generator, NULL, &count));
  EXPECT(count == 1);
  EXPECT_OK(hg_generator_step(generator, NULL, &count));
  EXPECT(count == 6); /* five proposed tokens, and one more */
  options.draft = NULL;
  options.on_logits = only_two;
  options.host = &seen;
  options.max_tokens = 2;
  EXPECT_OK(hg_generator_generate(generator, &prompt, 1, &options, NULL));
  EXPECT_OK(hg_generator_sequence(generator, 0, &ids, &count, NULL));
  EXPECT(count == 2 && ids[0] == 2 && ids[1] == 2 && seen == 3);
  options.on_logits = refuse;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "on_logits returned 7",
               hg_generator_generate(generator, &prompt, 1, &options, NULL));
  options.on_logits = NULL;
  options.encoder_ids = &prompt;
  options.encoder_id_count = 1;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "the model has none",
               hg_generator_generate(generator, &prompt, 1, &options, NULL));
  hg_generator_free(draft);
  hg_generator_free(generator);
}

static void test_past(const char* folder) {
  hg_model* model = words_model();
  hg_generator *generator = NULL, *copy = NULL;
  char path[1024];
  const int32_t first[2] = {1, 3};
  int32_t ids[3] = {-1, -1, -1};
  const float* logits = NULL;
  size_t count = 0;
  snprintf(path, sizeof path, "%s/c_test.past", folder);
  EXPECT_OK(hg_generator_create(model, NULL, &generator));
  EXPECT(hg_generator_length(generator) == 0 && hg_generator_length(NULL) == 0);
  EXPECT_OK(hg_generator_append(generator, first, 2, NULL, &logits, &count));
  EXPECT(count == 5 && logits[4] == 2 && logits[0] == 0);
  EXPECT(hg_generator_length(generator) == 2);
  EXPECT_OK(hg_generator_fork(generator, &copy));
  EXPECT_OK(hg_generator_truncate(generator, 1));
  EXPECT_OK(hg_generator_save(generator, path));
  EXPECT_OK(hg_generator_ids(generator, ids, 3, &count));
  EXPECT(count == 1 && ids[0] == 1 && ids[1] == -1);
  EXPECT_OK(hg_generator_ids(copy, ids, 1, &count));
  EXPECT(count == 2 && ids[1] == -1);
  EXPECT_OK(hg_generator_load(copy, path));
  EXPECT(hg_generator_length(copy) == 1);
  hg_generator_reset(copy);
  EXPECT(hg_generator_length(copy) == 0);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "a past of 1 tokens to 2", hg_generator_truncate(generator, 2));
  EXPECT_FAILS(HG_NOT_FOUND, "none.past", hg_generator_load(copy, "none.past"));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "ids is null",
               hg_generator_append(copy, NULL, 2, NULL, &logits, &count));
  EXPECT(logits == NULL && count == 0);
  remove(path);
  hg_generator_free(generator);
  hg_generator_free(copy);
  hg_model_free(model);
}

static void test_batch(void) {
  hg_model* model = words_model();
  hg_batch* batch = NULL;
  const int32_t first[2] = {1, 3}, second[1] = {0};
  const hg_token_ids prompts[2] = {{first, 2}, {second, 1}}, wrong = {NULL, 1};
  hg_generate_options options;
  hg_generated_token token;
  hg_ended_sequence ended;
  int64_t ids[2] = {-1, -1}, none = 0;
  size_t count = 0;
  memset(&token, 0, sizeof token);
  token.struct_size = sizeof token;
  memset(&ended, 0, sizeof ended);
  ended.struct_size = sizeof ended;
  hg_generate_options_init(&options, sizeof options);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "rows is 0", hg_batch_create(model, 0, NULL, &batch));
  EXPECT_OK(hg_batch_create(model, 2, NULL, &batch));
  options.max_tokens = 2;
  EXPECT_OK(hg_batch_add(batch, &prompts[0], &options, NULL, &ids[0]));
  options.max_tokens = 1;
  EXPECT_OK(hg_batch_add(batch, &prompts[1], &options, NULL, &ids[1]));
  EXPECT_FAILS(HG_BUSY, "all 2 rows", hg_batch_add(batch, &prompts[0], &options, NULL, &none));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "prompt.ids is null",
               hg_batch_add(batch, &wrong, &options, NULL, &none));
  EXPECT(none == -1 && hg_batch_running(batch) == 2);
  EXPECT_OK(hg_batch_step(batch, NULL, &count));
  EXPECT(count == 2);
  EXPECT_OK(hg_batch_token(batch, 0, &token));
  EXPECT(token.prompt == ids[0] && token.id == 4);
  EXPECT(hg_batch_ended_count(batch) == 1 && hg_batch_running(batch) == 1);
  EXPECT_OK(hg_batch_ended(batch, 0, &ended));
  EXPECT(ended.id == ids[1] && ended.count == 1 && ended.ids[0] == 1 && ended.code == 0);
  EXPECT(ended.finish == HG_FINISH_LENGTH && ended.message[0] == 0);
  EXPECT_OK(hg_batch_end(batch, ids[0]));
  EXPECT_OK(hg_batch_ended(batch, 1, &ended));
  EXPECT(ended.id == ids[0] && ended.finish == HG_FINISH_STOP && ended.count == 1);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "no sequence 2 among 2", hg_batch_ended(batch, 2, &ended));
  EXPECT_FAILS(HG_NOT_FOUND, "no running sequence", hg_batch_end(batch, ids[0]));
  options.on_logits = refuse;
  EXPECT_OK(hg_batch_add(batch, &prompts[1], &options, NULL, &ids[0]));
  EXPECT_OK(hg_batch_step(batch, NULL, &count));
  EXPECT_OK(hg_batch_ended(batch, 0, &ended));
  EXPECT(count == 0 && ended.code == HG_INVALID_ARGUMENT);
  EXPECT(strcmp(ended.message, "on_logits returned 7") == 0);
  hg_batch_free(batch);
  hg_batch_free(NULL);
  hg_model_free(model);
}

static void test_embeddings(void) {
  hg_model* model = words_model();
  hg_embedder* embedder = NULL;
  const int32_t ids[3] = {1, 1, 3};
  float out[5] = {9, 9, 9, 9, 9};
  EXPECT_OK(hg_embedder_create(model, NULL, &embedder));
  EXPECT(hg_embedder_size(embedder) == 5 && hg_embedder_size(NULL) == 0);
  EXPECT_OK(hg_embedder_embed(embedder, ids, 3, HG_POOLING_MEAN, 1, NULL, out));
  EXPECT(out[0] == 0 && fabs(out[1] - 2 / sqrt(5)) < 1e-6 && fabs(out[3] - 1 / sqrt(5)) < 1e-6);
  EXPECT_OK(hg_embedder_embed(embedder, ids, 3, HG_POOLING_LAST, 0, NULL, out));
  EXPECT(out[3] == 1 && out[1] == 0);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "pooling is 3",
               hg_embedder_embed(embedder, ids, 3, 3, 1, NULL, out));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "empty", hg_embedder_embed(embedder, NULL, 0, 0, 1, NULL, out));
  hg_embedder_free(embedder);
  hg_embedder_free(NULL);
  hg_model_free(model);
}

int main(int argc, char** argv) {
  const char* folder = argc > 1 ? argv[1] : ".";
  g_file = g_room + (64 - (uintptr_t)g_room % 64) % 64;
  g_size = hg_test_model(g_file, 1 << 16);
  EXPECT(g_size > 0);
  test_words();
  test_tensors();
  test_loading(folder);
  test_entries();
  test_sized_structs();
  test_inspecting();
  test_running();
  test_random_ops();
  test_adapters();
  test_generation();
  test_generate_options();
  test_past(folder);
  test_batch();
  test_embeddings();
  test_training(folder);
  test_devices();
  printf(failures == 0 ? "all of hg/c.h holds\n" : "%d failures\n", failures);
  return failures != 0;
}
