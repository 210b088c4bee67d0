// SPDX-License-Identifier: Apache-2.0
#include "hg/text/c.h"

#include "hg/text/grammar.h"
#include "hg/text/model_files.h"
#include "lib/c/handles.h"

namespace hg::c {
namespace {

hg_status* constraint_from(const hg_model* model, const char* text, hg_constraint** constraint,
                           Result<Grammar> (*parse)(std::string_view)) {
  return border([&]() -> Status {
    HG_C_NEEDS(constraint);
    *constraint = nullptr;
    HG_C_NEEDS(model);
    HG_CHECK(text != nullptr, "the text is null");
    HG_TRY_ASSIGN(const Grammar grammar, parse(text));
    HG_TRY_ASSIGN(const Tokenizer tokenizer, tokenizer_of(model->model));
    HG_TRY_ASSIGN(auto texts, token_texts(tokenizer));
    return give(constraint, constraint_of(grammar, std::move(texts)));
  });
}

}  // namespace
}  // namespace hg::c

extern "C" {

hg_status* hg_constraint_of_grammar(const hg_model* model, const char* rules,
                                    hg_constraint** constraint) {
  return hg::c::constraint_from(model, rules, constraint, hg::Grammar::parse);
}

hg_status* hg_constraint_of_json_schema(const hg_model* model, const char* schema,
                                        hg_constraint** constraint) {
  return hg::c::constraint_from(model, schema, constraint, hg::Grammar::from_json_schema);
}

}  // extern "C"
