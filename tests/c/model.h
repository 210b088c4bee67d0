/* SPDX-License-Identifier: Apache-2.0
 * The model that tests of hg/c.h use. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C"
#endif
    /* Writes the .hgm file to `to`; its bytes, or 0 where there is not so much room. */
    size_t
    hg_test_model(void* to, size_t capacity);
