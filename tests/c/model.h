/* SPDX-License-Identifier: Apache-2.0
 * The models that tests of hg/c.h use. Each writes its .hgm file to `to` and returns its bytes, or
 * 0 where there is not so much room. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t hg_test_model(void* to, size_t capacity);
/* No input; it draws an output "y" of f32[8]. */
size_t hg_test_random_model(void* to, size_t capacity);

#ifdef __cplusplus
}
#endif
