/* SPDX-License-Identifier: Apache-2.0
 * hg/c.h from C99: every function compared with plain loops, and each error. */
#include "hg/c.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/c/test.h"

static int failures = 0;

void hg_note(int holds, const char* file, int line, const char* condition) {
  if (holds) return;
  fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
  ++failures;
}
int hg_expect(hg_status* status, hg_code code, const char* part, const char* file, int line) {
  const int as_expected =
      hg_status_code(status) == code && strstr(hg_status_message(status), part) != NULL;
  if (!as_expected) {
    fprintf(stderr, "%s:%d: %s: '%s'; expected %s with '%s'\n", file, line,
            hg_code_name(hg_status_code(status)), hg_status_message(status), hg_code_name(code),
            part);
    ++failures;
  }
  hg_status_free(status);
  return as_expected;
}

const float kW[6] = {0.5f, -1, 2, 0.25f, 3, -0.75f}, kB[2] = {0.125f, -2};

void linear(const float* w, const float* b, const float* x, int n, float* y) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 2; ++j) {
      y[i * 2 + j] = b[j];
      for (int k = 0; k < 3; ++k) y[i * 2 + j] += x[i * 3 + k] * w[j * 3 + k];
    }
}

int is_near(const float* a, const float* b, int count) {
  for (int i = 0; i < count; ++i)
    if (!(fabsf(a[i] - b[i]) <= 1e-5f)) return 0;
  return 1;
}

hg_tensor tensor_of(void* data, int64_t rows, int64_t columns) {
  const int64_t shape[2] = {rows, columns};
  hg_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  EXPECT_OK(hg_tensor_view(&tensor, sizeof tensor, data, HG_F32, 2, shape));
  return tensor;
}

static unsigned char g_room[(1 << 16) + 64];
unsigned char* g_file;
size_t g_size;

hg_model* read_model(void) {
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
