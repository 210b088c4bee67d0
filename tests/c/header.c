/* SPDX-License-Identifier: Apache-2.0
 * hg/c.h alone, in a program that the C++ compiler links with the archive. */
#include "hg/c.h"

int main(void) { return hg_version()[0] == '0' && hg_model_input_count(NULL) == 0 ? 0 : 1; }
