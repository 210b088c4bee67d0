/* SPDX-License-Identifier: Apache-2.0
 * hg/c.h: sessions with hooks of the host, random ops, adapters and devices. */
#include <stdlib.h>
#include <string.h>

#include "tests/c/test.h"

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

void test_running(void) {
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

void test_random_ops(void) {
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
void test_adapters(void) {
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

void test_devices(void) {
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
