/* SPDX-License-Identifier: Apache-2.0
 * The models of the tests of hg/c.h. Each writes its .hgm file to `to` and returns its size in
 * bytes, or 0 if there is not enough room. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t hg_test_model(void* to, size_t capacity);
/* An adapter of that model: it adds x[0] to both elements of y. */
size_t hg_test_adapter(void* to, size_t capacity);
/* A language model of five words: after the word i, the word i + 1 is the most likely. */
size_t hg_test_words_model(void* to, size_t capacity);
/* No input; it draws an output "y" of f32[8]. */
size_t hg_test_random_model(void* to, size_t capacity);
/* Entries "add", which adds x of f32[2] to the buffer "total", and "read"; both have an output "y",
 * the total before the run. */
size_t hg_test_entries(void* to, size_t capacity);

#ifdef __cplusplus
}
#endif
