/* SPDX-License-Identifier: Apache-2.0
 * What the tests of hg/c.h share: expectations, a linear model and its answer. */
#pragma once

#include <stddef.h>

#include "hg/c.h"
#include "tests/c/model.h"

void hg_note(int holds, const char* file, int line, const char* condition);
int hg_expect(hg_status* status, hg_code code, const char* part, const char* file, int line);
#define EXPECT(condition) hg_note(condition, __FILE__, __LINE__, #condition)
#define EXPECT_OK(call) hg_expect(call, HG_OK, "", __FILE__, __LINE__)
#define EXPECT_FAILS(code, part, call) hg_expect(call, code, part, __FILE__, __LINE__)

/* y = x w^T + b, with x of f32[n, 3], is the model. */
extern const float kW[6], kB[2];
void linear(const float* w, const float* b, const float* x, int n, float* y);
int is_near(const float* a, const float* b, int count);
hg_tensor tensor_of(void* data, int64_t rows, int64_t columns);
/* Its file, which starts at a multiple of 64. */
extern unsigned char* g_file;
extern size_t g_size;
hg_model* read_model(void);

void test_running(void);
void test_random_ops(void);
void test_adapters(void);
void test_devices(void);
void test_training(const char* folder);
void test_generation(void);
void test_generate_options(void);
void test_past(const char* folder);
void test_batch(void);
void test_embeddings(void);
