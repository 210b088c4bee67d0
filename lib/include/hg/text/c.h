/* SPDX-License-Identifier: Apache-2.0
 * Grammars for the generators of hg/c.h. These functions are in libhologram_text. */
#ifndef HG_TEXT_C_H
#define HG_TEXT_C_H

#include "hg/c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a constraint for hg_generate_options from the rules of a grammar, or from a JSON schema;
 * see hg/text/grammar.h. The tokenizer is that of the model file. Takes as long as decoding the
 * vocabulary. Free it with hg_constraint_free(). */
hg_status* hg_constraint_of_grammar(const hg_model* model, const char* rules,
                                    hg_constraint** constraint) HG_C_CHECKED;
hg_status* hg_constraint_of_json_schema(const hg_model* model, const char* schema,
                                        hg_constraint** constraint) HG_C_CHECKED;

#ifdef __cplusplus
}
#endif

#endif
