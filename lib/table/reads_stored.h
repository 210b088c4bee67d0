// SPDX-License-Identifier: Apache-2.0
// HG_READS_STORED: products in f32 read weights of 16 bits as they are stored, and attention reads
// keys and values of 8 bits. Builds for size widen these in each run instead.
#pragma once

#if !defined(HG_SMALL) || defined(HG_CHOSEN)
#define HG_READS_STORED 1
#endif
