// SPDX-License-Identifier: Apache-2.0
// Generators of hg/c.h.
#include "hg/generator.h"

#include <algorithm>
#include <span>

#include "lib/c/handles.h"
#include "lib/c/structs.h"

using hg::c::border;

namespace hg::c {
namespace {

Result<std::vector<std::vector<int32_t>>> read_ids(const hg_token_ids* given, size_t count,
                                                   std::string_view name) {
  HG_CHECK(given != nullptr || count == 0, name, " is null and has ", uint64_t{count}, " entries");
  std::vector<std::vector<int32_t>> all;
  for (size_t i = 0; i < count; ++i) {
    HG_CHECK(given[i].ids != nullptr || given[i].count == 0, name, "[", uint64_t{i},
             "].ids is null and has ", uint64_t{given[i].count}, " entries");
    const std::span<const int32_t> ids(given[i].ids, given[i].count);
    all.emplace_back(ids.begin(), ids.end());
  }
  return all;
}

hg_generate_options default_generate_options() {
  hg_generate_options options{};
  options.max_tokens = GenerateOptions().max_tokens;
  options.top_p = SamplerOptions().top_p;
  options.repetition_penalty = SamplerOptions().repetition_penalty;
  options.num_return_sequences = GenerateOptions().num_return_sequences;
  options.num_beams = GenerateOptions().num_beams;
  options.length_penalty = GenerateOptions().length_penalty;
  options.draft_tokens = GenerateOptions().draft_tokens;
  return options;
}

}  // namespace

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
  o.num_return_sequences = all.num_return_sequences;
  o.num_beams = all.num_beams;
  o.length_penalty = all.length_penalty;
  HG_CHECK(
      all.early_stopping >= HG_EARLY_STOPPING_NO && all.early_stopping <= HG_EARLY_STOPPING_NEVER,
      "hg_generate_options.early_stopping is ", all.early_stopping, ", expected 0 to 2");
  o.early_stopping = static_cast<EarlyStopping>(all.early_stopping);
  o.lookup = all.lookup;
  if (all.draft != nullptr) o.draft = &all.draft->generator;
  o.draft_tokens = all.draft_tokens;
  HG_TRY_ASSIGN(o.encoder_ids,
                read_ids(all.encoder_ids, all.encoder_id_count, "hg_generate_options.encoder_ids"));
  if (all.encoder_features != nullptr) {
    HG_TRY_ASSIGN(o.encoder_features, read_tensor(all.encoder_features));
  }
  if (all.constraint != nullptr) o.constraint = all.constraint->constraint;
  if (all.on_logits != nullptr)
    o.on_logits = [call = all.on_logits, host = all.host](int64_t prompt,
                                                          std::span<const int32_t> ids,
                                                          std::span<float> logits) -> Status {
      const int32_t code = call(host, prompt, ids.data(), ids.size(), logits.data(), logits.size());
      HG_CHECK(code == 0, "on_logits returned ", code);
      return {};
    };
  return o;
}

Status write_token(const std::vector<GeneratedToken>& tokens, size_t index,
                   hg_generated_token* to) {
  HG_CHECK(index < tokens.size(), "there is no token ", uint64_t{index}, " among ",
           uint64_t{tokens.size()}, " of the last step");
  hg_generated_token all{};
  all.id = tokens[index].id;
  all.prompt = tokens[index].prompt;
  all.log_probability = tokens[index].log_probability;
  return write_struct(to, all, "hg_generated_token");
}

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
    return hg::c::create_for(model, options, generator,
                             [](const hg::Model& from, hg::SessionOptions all) {
                               return hg::Generator::create(from, std::move(all));
                             });
  });
}

void hg_generator_free(hg_generator* generator) { delete generator; }
void hg_constraint_free(hg_constraint* constraint) { delete constraint; }

hg_status* hg_generator_begin(hg_generator* generator, const hg_token_ids* prompts,
                              size_t prompt_count, const hg_generate_options* options) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(generator);
    generator->tokens.clear();
    HG_TRY_ASSIGN(hg::GenerateOptions all, hg::c::read_generate_options(options));
    HG_TRY_ASSIGN(const auto ids, hg::c::read_ids(prompts, prompt_count, "prompts"));
    return generator->generator.begin(ids, std::move(all));
  });
}

hg_status* hg_generator_generate(hg_generator* generator, const hg_token_ids* prompts,
                                 size_t prompt_count, const hg_generate_options* options,
                                 const hg_cancel* cancel) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(generator);
    generator->tokens.clear();
    HG_TRY_ASSIGN(const hg::GenerateOptions all, hg::c::read_generate_options(options));
    HG_TRY_ASSIGN(const auto ids, hg::c::read_ids(prompts, prompt_count, "prompts"));
    return generator->generator.generate(ids, all, hg::c::token_of(cancel)).status();
  });
}

hg_status* hg_generator_step(hg_generator* generator, const hg_cancel* cancel, size_t* count) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(count);
    *count = 0;
    HG_C_NEEDS(generator);
    return hg::c::run_step(generator->generator, cancel, generator->tokens, count);
  });
}

hg_status* hg_generator_token(const hg_generator* generator, size_t index,
                              hg_generated_token* token) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(generator);
    return hg::c::write_token(generator->tokens, index, token);
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

int64_t hg_generator_length(const hg_generator* generator) {
  return generator == nullptr ? 0 : generator->generator.length();
}

hg_status* hg_generator_ids(const hg_generator* generator, int32_t* ids, size_t capacity,
                            size_t* count) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(count);
    *count = 0;
    HG_C_NEEDS(generator);
    HG_CHECK(ids != nullptr || capacity == 0, "ids is null and has room for ", uint64_t{capacity});
    HG_TRY_ASSIGN(const std::vector<int32_t> all, generator->generator.ids());
    std::copy_n(all.begin(), std::min(capacity, all.size()), ids);
    *count = all.size();
    return {};
  });
}

hg_status* hg_generator_append(hg_generator* generator, const int32_t* ids, size_t count,
                               const hg_cancel* cancel, const float** logits, size_t* logit_count) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(logits);
    *logits = nullptr;
    HG_C_NEEDS(logit_count);
    *logit_count = 0;
    HG_C_NEEDS(generator);
    HG_CHECK(ids != nullptr || count == 0, "ids is null and has ", uint64_t{count}, " entries");
    generator->tokens.clear();
    HG_TRY_ASSIGN(const auto all,
                  generator->generator.append({ids, count}, hg::c::token_of(cancel)));
    *logits = all.data();
    *logit_count = all.size();
    return {};
  });
}

void hg_generator_reset(hg_generator* generator) {
  if (generator != nullptr) generator->generator.reset();
}

hg_status* hg_generator_truncate(hg_generator* generator, int64_t length) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(generator);
    return generator->generator.truncate(length);
  });
}

hg_status* hg_generator_fork(const hg_generator* generator, hg_generator** copy) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(copy);
    *copy = nullptr;
    HG_C_NEEDS(generator);
    HG_TRY_ASSIGN(hg::Generator made, generator->generator.fork());
    return hg::c::give(copy, generator->log, std::move(made));
  });
}

hg_status* hg_generator_save(const hg_generator* generator, const char* path) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(generator);
    HG_C_NEEDS(path);
    return generator->generator.save(path);
  });
}

hg_status* hg_generator_load(hg_generator* generator, const char* path) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(generator);
    HG_C_NEEDS(path);
    return generator->generator.load(path);
  });
}

}  // extern "C"
