// SPDX-License-Identifier: Apache-2.0
// Generators of hg/c.h.
#include "hg/generator.h"

#include <span>

#include "lib/c/handles.h"
#include "lib/c/structs.h"

using hg::c::border;

namespace hg::c {
namespace {

hg_generate_options default_generate_options() {
  hg_generate_options options{};
  options.max_tokens = GenerateOptions().max_tokens;
  options.top_p = SamplerOptions().top_p;
  options.repetition_penalty = SamplerOptions().repetition_penalty;
  return options;
}

Result<GenerateOptions> read_generate_options(const hg_generate_options* given) {
  HG_TRY_ASSIGN(const hg_generate_options all,
                read_struct(given, default_generate_options(), "hg_generate_options"));
  HG_CHECK(all.stop_ids != nullptr || all.stop_id_count == 0,
           "hg_generate_options.stop_ids is null and has ", uint64_t{all.stop_id_count},
           " entries");
  GenerateOptions o;
  o.max_tokens = all.max_tokens;
  if (all.stop_id_count > 0) o.stop_ids.assign(all.stop_ids, all.stop_ids + all.stop_id_count);
  o.sampler = {.temperature = all.temperature,
               .top_k = all.top_k,
               .top_p = all.top_p,
               .min_p = all.min_p,
               .repetition_penalty = all.repetition_penalty,
               .seed = all.seed};
  o.log_probabilities = all.log_probabilities != 0;
  o.reuse_past = all.reuse_past != 0;
  return o;
}

Result<std::vector<std::vector<int32_t>>> read_prompts(const hg_token_ids* prompts, size_t count) {
  HG_CHECK(prompts != nullptr || count == 0, "prompts is null and has ", uint64_t{count},
           " entries");
  std::vector<std::vector<int32_t>> all;
  for (size_t i = 0; i < count; ++i) {
    HG_CHECK(prompts[i].ids != nullptr || prompts[i].count == 0, "prompts[", uint64_t{i},
             "].ids is null and has ", uint64_t{prompts[i].count}, " entries");
    const std::span<const int32_t> ids(prompts[i].ids, prompts[i].count);
    all.emplace_back(ids.begin(), ids.end());
  }
  return all;
}

}  // namespace
}  // namespace hg::c

extern "C" {

void hg_generate_options_init(hg_generate_options* options, size_t struct_size) {
  hg::c::write_defaults(options, struct_size, hg::c::default_generate_options());
}

hg_status* hg_generator_create(const hg_model* model, const hg_session_options* options,
                               hg_generator** generator) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(generator);
    *generator = nullptr;
    HG_C_NEEDS(model);
    std::unique_ptr<hg::c::CLog> log;
    HG_TRY_ASSIGN(hg::SessionOptions all, hg::c::read_session_options(options, log));
    HG_TRY_ASSIGN(hg::Generator made, hg::Generator::create(model->model, std::move(all)));
    return hg::c::give(generator, std::move(log), std::move(made));
  });
}

void hg_generator_free(hg_generator* generator) { delete generator; }

hg_status* hg_generator_begin(hg_generator* generator, const hg_token_ids* prompts,
                              size_t prompt_count, const hg_generate_options* options) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(generator);
    generator->tokens.clear();
    HG_TRY_ASSIGN(hg::GenerateOptions all, hg::c::read_generate_options(options));
    HG_TRY_ASSIGN(const auto ids, hg::c::read_prompts(prompts, prompt_count));
    return generator->generator.begin(ids, std::move(all));
  });
}

hg_status* hg_generator_step(hg_generator* generator, const hg_cancel* cancel, size_t* count) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(count);
    *count = 0;
    HG_C_NEEDS(generator);
    generator->tokens.clear();
    HG_TRY_ASSIGN(const auto tokens, generator->generator.step(hg::c::token_of(cancel)));
    generator->tokens.assign(tokens.begin(), tokens.end());
    *count = tokens.size();
    return {};
  });
}

hg_status* hg_generator_token(const hg_generator* generator, size_t index,
                              hg_generated_token* token) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(generator);
    const std::vector<hg::GeneratedToken>& tokens = generator->tokens;
    HG_CHECK(index < tokens.size(), "there is no token ", uint64_t{index}, " among ",
             uint64_t{tokens.size()}, " of the last step");
    hg_generated_token all{};
    all.id = tokens[index].id;
    all.prompt = tokens[index].prompt;
    all.log_probability = tokens[index].log_probability;
    return hg::c::write_struct(token, all, "hg_generated_token");
  });
}

hg_status* hg_generator_end(hg_generator* generator, int64_t prompt) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(generator);
    return generator->generator.end(prompt);
  });
}

hg_status* hg_generator_sequence(const hg_generator* generator, int64_t prompt, const int32_t** ids,
                                 size_t* count, int32_t* finish) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(ids);
    *ids = nullptr;
    HG_C_NEEDS(count);
    *count = 0;
    HG_C_NEEDS(generator);
    const auto& all = generator->generator.generation().sequences;
    HG_CHECK(prompt >= 0 && static_cast<uint64_t>(prompt) < all.size(), "there is no prompt ",
             prompt, " among ", uint64_t{all.size()});
    const hg::GeneratedSequence& sequence = all[static_cast<size_t>(prompt)];
    *ids = sequence.ids.data();
    *count = sequence.ids.size();
    if (finish != nullptr)
      *finish = sequence.finish == hg::Finish::stop ? HG_FINISH_STOP : HG_FINISH_LENGTH;
    return {};
  });
}

}  // extern "C"
