// SPDX-License-Identifier: Apache-2.0
// hg-generate: continues prompts, texts or token ids, with a language model.
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "hg/array.h"
#include "hg/embedder.h"
#include "hg/generator.h"
#include "hg/npy.h"
#include "hg/text/model_files.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/overwrites.h"
#include "tools/command_line/words.h"
#include "tools/entry.h"
#include "tools/generated_text.h"
#include "tools/gpu.h"
#include "tools/process.h"

namespace hg::tools {
namespace {

constexpr char kExamples[] = R"(Examples:
  hg-generate smollm.hgm --prompt "The moon is"
  hg-generate smollm.hgm --chat --system "Answer in one sentence." --prompt "What is a star?"
  hg-generate smollm.hgm --chat
  hg-generate smollm.hgm --tokenizer tokenizer.json --prompt "The moon is" --stop "<|im_end|>"
  hg-generate smollm.hgm --ids 504,3575,282 --max-tokens 64 --stop-id 0
  hg-generate smollm.hgm --ids 504,3575 --ids 19556 --temperature 0.8 --top-p 0.95 --seed 7
  hg-generate smollm.hgm --ids 504,3575,282 --json
  hg-generate smollm.hgm --prompt "The moon is" --prompt-cache moon.past
  hg-generate llama.hgm --prompt "The moon is" --draft smollm.hgm
  hg-generate smollm.hgm --embed --prompt "The moon is round."
  hg-generate translator.hgm --prompt "The moon is round."
  hg-generate whisper.hgm --features audio.npy --decoder-ids 50258,50259,50359,50363

With --prompt, --stop or --tokenizer, prints the text of each answer; the text of a single prompt
appears as it is generated. Otherwise prints a line of new ids for each prompt. Answers exclude stop
ids and stop texts. Prompts run together.
The model file holds the tokenizer and the stop ids (hg-info lists attached files): tokenizer.json,
and eos_token_id of generation_config.json. --stop-id adds further stop ids.
The encoder of an encoder-decoder, such as T5 or Whisper, reads the prompts, or --features. Answers
begin with --decoder-ids, or with the start ids of generation_config.json.
With --chat, each prompt is a message of the user. The model's chat template, chat_template.jinja in
the model file, turns it into the model's input. Without a prompt, each line of standard input is a
message, and the model sees the whole conversation.
The sampler applies repetition penalty, temperature, top k, top p and min p in this order, as
transformers does. Without a temperature, it chooses the token with the largest logit.

--json prints an object, or a list of objects if there are several prompts: ids, finish (length or
stop), prompt_tokens, tokens; prompt_ms and decode_ms, which are the time of the first run and of
all later runs, for all prompts together; text, unless only ids are printed; with
--log-probabilities, log_probabilities; with --prompt-cache, reused, the tokens of the prompt that
were not read again; with --lookup or --draft, the numbers of proposed and accepted tokens.
With --embed, prints the embedding of each prompt as a line of numbers; with --json, objects with
embedding and prompt_tokens.

Exit codes: 0 ok, 1 usage, 2 unreadable file, 3 unsupported, 4 prompts and model do not fit.)";

struct GenerateJob {
  std::string model, entry, tokenizer, chat_template, system, features, decoder_ids, grammar,
      schema, cache, draft, past, early_stopping = "no", device = "cpu", precision = "f32";
  int threads = 0;
  std::vector<std::string> ids, stop_ids, texts, stops, adapters;  // as given
  std::vector<std::vector<int32_t>> prompts;
  std::vector<int32_t> start;  // of answers of an encoder-decoder
  std::optional<Array> features_array;
  GenerateOptions options;
  std::string pooling = "mean";
  bool as_json = false, chats = false, embeds = false;
};

// Adds the ids in "5,17,3".
Outcome parse_ids(std::string_view option, const std::string& text, std::vector<int32_t>& ids) {
  if (text.find_first_not_of(" ,") == std::string::npos)
    return usage(option, " has no ids; write them as in ", option, " 5,17,3");
  for (const std::string_view word : split(text)) {
    int32_t& id = ids.emplace_back();
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, id);
    if (error != std::errc() || stop != end || id < 0)
      return usage(option, ": '", word, "' is not a token id, which is from 0 to 2147483647");
  }
  return {};
}

std::string ids_text(const std::vector<int32_t>& ids) {
  std::string out;
  for (const int32_t id : ids) out += str_cat(out.empty() ? "" : ",", id);
  return out;
}

size_t tokens_of_prompt(const GenerateJob& job, size_t prompt) {
  const auto& texts = job.options.encoder_ids;
  return texts.empty() ? job.prompts[prompt].size() : texts[prompt].size();
}

nlohmann::ordered_json json_of(const GenerateJob& job, const Generation& answer,
                               const std::vector<std::string>& texts, size_t index) {
  const GeneratedSequence& sequence = answer.sequences[index];
  const size_t prompt = index / static_cast<size_t>(job.options.num_return_sequences);
  nlohmann::ordered_json row = {{"ids", sequence.ids},
                                {"finish", to_string(sequence.finish)},
                                {"prompt_tokens", tokens_of_prompt(job, prompt)},
                                {"tokens", sequence.ids.size()},
                                {"prompt_ms", answer.prompt_ms},
                                {"decode_ms", answer.decode_ms}};
  if (!texts.empty()) row["text"] = texts[index];
  if (job.options.num_beams > 1) row["score"] = sequence.score;
  if (job.options.log_probabilities) row["log_probabilities"] = sequence.log_probabilities;
  if (!job.cache.empty()) row["reused"] = answer.reused;
  if (job.options.lookup > 0 || !job.draft.empty()) {
    row["proposed"] = answer.proposed;
    row["accepted"] = answer.accepted;
  }
  return row;
}

// `texts`: the answer to each prompt, or empty.
std::string text_of(const GenerateJob& job, const Generation& answer,
                    const std::vector<std::string>& texts) {
  if (job.as_json) {
    if (answer.sequences.size() == 1) return json_of(job, answer, texts, 0).dump() + "\n";
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (size_t i = 0; i < answer.sequences.size(); ++i)
      list.push_back(json_of(job, answer, texts, i));
    return list.dump() + "\n";
  }
  std::string out;
  for (const std::string& text : texts) out += text + "\n";
  if (!texts.empty()) return out;
  for (const GeneratedSequence& sequence : answer.sequences) out += ids_text(sequence.ids) + "\n";
  return out;
}

// Checks the options that need no model.
Outcome read(GenerateJob& job) {
  if (job.model.empty()) return usage("no MODEL is given; see hg-generate --help");
  if (job.chats && !job.ids.empty()) return usage("--chat continues texts, not --ids");
  if (job.chats && job.texts.empty() && job.as_json)
    return usage("--chat --json needs --prompt; see hg-generate --help");
  if (job.ids.empty() && job.texts.empty() && job.features.empty() && !job.chats)
    return usage("no prompt is given: use --ids or --prompt; see hg-generate --help");
  if (!job.ids.empty() + !job.texts.empty() + !job.features.empty() > 1)
    return usage("use either --ids, --prompt or --features");
  if (!job.decoder_ids.empty())
    if (Outcome o = parse_ids("--decoder-ids", job.decoder_ids, job.start); !o.ok()) return o;
  for (const std::string& text : job.ids)
    if (Outcome o = parse_ids("--ids", text, job.prompts.emplace_back()); !o.ok()) return o;
  for (const std::string& text : job.stop_ids)
    if (Outcome o = parse_ids("--stop-id", text, job.options.stop_ids); !o.ok()) return o;
  for (const std::string& text : job.stops)
    if (text.empty()) return usage("--stop is empty; give the text that ends a sequence");
  job.options.early_stopping = job.early_stopping == "yes"     ? EarlyStopping::yes
                               : job.early_stopping == "never" ? EarlyStopping::never
                                                               : EarlyStopping::no;
  if (!job.cache.empty() && (job.ids.size() + job.texts.size() > 1 || job.options.num_beams > 1 ||
                             job.options.num_return_sequences > 1))
    return usage("--prompt-cache takes one prompt with one answer");
  if (const auto made = Sampler::create(job.options.sampler); !made.ok())
    return usage(made.status().message());
  return {};
}

// Generates with a tokenizer. Prints a single text as it arrives, except for JSON. `texts`: the
// answers.
Outcome generate_text(GenerateJob& job, Generator& generator, GeneratedText& text,
                      std::vector<std::string>& texts) {
  const size_t count = job.prompts.size() * static_cast<size_t>(job.options.num_return_sequences);
  const bool streams = count == 1 && !job.as_json;
  texts.assign(count, "");
  const auto take = [&](size_t prompt, const Result<std::string>& piece) {
    if (!piece.ok()) return false;
    texts[prompt] += *piece;
    if (streams) {
      std::fputs(piece->c_str(), stdout);
      std::fflush(stdout);
    }
    return true;
  };
  Outcome failed;
  text.begin(count);
  job.options.on_token = [&](const GeneratedToken& token) {
    const auto prompt = static_cast<size_t>(token.prompt);
    const Result<std::string> piece = text.push(prompt, token.id);
    if (!take(prompt, piece)) failed = outcome(piece.status());
    return failed.ok() && !text.has_ended(prompt);
  };
  const Result<Generation> answer = generator.generate(job.prompts, job.options);
  if (!failed.ok()) return failed;
  if (!answer.ok()) return outcome(answer.status());
  for (size_t i = 0; i < texts.size(); ++i)
    if (const Result<std::string> rest = text.finish(i); !take(i, rest))
      return outcome(rest.status());
  std::fputs(streams ? "\n" : text_of(job, *answer, texts).c_str(), stdout);
  return {};
}

// The template already writes the special tokens of a prompt.
Result<std::vector<int32_t>> chat_ids(const ChatPrompts& chat, const GeneratedText& text,
                                      const std::vector<ChatTurn>& turns) {
  HG_TRY_ASSIGN(const std::string prompt, chat.render(turns));
  return text.encode(prompt, false);
}

std::vector<ChatTurn> first_turns(const GenerateJob& job) {
  if (job.system.empty()) return {};
  return {{"system", job.system}};
}

// Each line of standard input is a message. The model reads the whole conversation each time.
Outcome converse(GenerateJob& job, Generator& generator, GeneratedText& text,
                 const ChatPrompts& chat) {
  std::vector<ChatTurn> turns = first_turns(job);
  for (std::string line; std::getline(std::cin, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    turns.push_back({"user", line});
    Result<std::vector<int32_t>> ids = chat_ids(chat, text, turns);
    if (!ids.ok()) return outcome(ids.status());
    job.prompts = {*std::move(ids)};
    std::vector<std::string> answers;
    if (Outcome o = generate_text(job, generator, text, answers); !o.ok()) return o;
    turns.push_back({"assistant", answers[0]});
  }
  return {};
}

// Restricts the answers.
Outcome use_grammar(GenerateJob& job, const GeneratedText& text) {
  const bool is_schema = !job.schema.empty();
  const std::string& path = is_schema ? job.schema : job.grammar;
  if (path.empty()) return {};
  Result<std::shared_ptr<const Constraint>> made = text.constraint(path, is_schema);
  if (!made.ok()) return outcome(made.status());
  job.options.constraint = *std::move(made);
  return {};
}

// Gives the prompts to the encoder.
Outcome use_encoder(GenerateJob& job, const Model& model) {
  if (job.start.empty()) {
    Result<std::vector<int32_t>> start = start_ids_of(model);
    if (!start.ok()) return outcome(start.status());
    job.start = *std::move(start);
  }
  if (job.start.empty()) return usage("the file does not say how answers begin: use --decoder-ids");
  size_t count = job.prompts.size();
  if (!job.features.empty()) {
    Result<Array> features = read_npy(job.features);
    if (!features.ok()) return outcome(features.status());
    job.features_array = *std::move(features);
    job.options.encoder_features = job.features_array->tensor();
    if (job.features_array->shape().rank() == 0) return usage("--features: the array is a number");
    count = static_cast<size_t>(job.features_array->shape()[0]);
  }
  job.options.encoder_ids = std::exchange(job.prompts, {});
  job.prompts.assign(count, job.start);
  return {};
}

// Prints the embeddings of the prompts.
Outcome embed(const GenerateJob& job, const Model& model, const SessionOptions& options) {
  Result<Embedder> embedder = Embedder::create(model, options);
  if (!embedder.ok()) return outcome(embedder.status());
  const EmbedOptions how = {.pooling = *parse_pooling(job.pooling)};
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const std::vector<int32_t>& prompt : job.prompts) {
    const Result<std::vector<float>> made = embedder->embed(prompt, how);
    if (!made.ok()) return outcome(made.status());
    list.push_back({{"embedding", *made}, {"prompt_tokens", prompt.size()}});
  }
  std::string out;
  if (job.as_json) {
    out = (list.size() == 1 ? list[0] : list).dump() + "\n";
  } else {
    for (const auto& each : list)
      for (size_t i = 0; i < each["embedding"].size(); ++i)
        out += (i > 0 ? " " : "") + each["embedding"][i].dump() +
               (i + 1 == each["embedding"].size() ? "\n" : "");
  }
  std::fputs(out.c_str(), stdout);
  return {};
}

Result<Generator> open_draft(const std::string& path, const SessionOptions& options) {
  HG_TRY_ASSIGN(const Model model, Model::load(path));
  return Generator::create(model, options);
}

// Continues from the past in the file, if the file exists.
Outcome load_cache(GenerateJob& job, Generator& generator) {
  job.options.reuse_past = true;
  std::error_code error;
  return std::filesystem::exists(job.cache, error) ? outcome(generator.load(job.cache)) : Outcome();
}

Outcome answer(GenerateJob& job, Generator& generator, GeneratedText* text,
               const ChatPrompts* chat) {
  if (chat != nullptr && job.texts.empty()) return converse(job, generator, *text, *chat);
  std::vector<std::string> answers;
  if (text != nullptr) return generate_text(job, generator, *text, answers);
  const Result<Generation> made = generator.generate(job.prompts, job.options);
  if (!made.ok()) return outcome(made.status());
  std::fputs(text_of(job, *made, {}).c_str(), stdout);
  return {};
}

// Adds ids of the model's files. They may name tokens that the model cannot choose.
void add_stop_ids(const std::vector<int32_t>& ids, const Generator& generator,
                  GenerateOptions& options) {
  const int64_t words = generator.vocabulary();
  for (const int32_t id : ids)
    if (words == 0 || id < words) options.stop_ids.push_back(id);
}

Outcome run(GenerateJob& job) {
  if (Outcome o = read(job); !o.ok()) return o;
  if (Outcome o = check_place(job.cache); !o.ok()) return o;
  if (!job.cache.empty() && job.options.max_tokens == 0)
    return usage("--prompt-cache needs --max-tokens 1 or more, because nothing is read without");
  Result<Model> model = load_adapted(job.model, job.adapters);
  const bool has_encoder = model.ok() && job.entry.empty() && is_encoder_decoder(*model);
  if (model.ok() && !has_encoder) model = entry_of(*std::move(model), job.model, job.entry);
  if (!model.ok()) return outcome(model.status());
  if (!has_encoder && (!job.features.empty() || !job.decoder_ids.empty()))
    return usage("--features and --decoder-ids are for encoder-decoders, and the model is none");
  if (has_encoder && !job.cache.empty())
    return {Exit::unsupported,
            "--prompt-cache: the past of an encoder-decoder depends on what the encoder read"};
  const Result<std::vector<int32_t>> stop_ids = stop_ids_of(*model);
  if (!stop_ids.ok()) return outcome(stop_ids.status());
  std::unique_ptr<GeneratedText> text;
  std::unique_ptr<ChatPrompts> chat;
  if (job.chats) {
    Result<std::unique_ptr<ChatPrompts>> opened = ChatPrompts::open(*model, job.chat_template);
    if (!opened.ok()) return outcome(opened.status());
    chat = *std::move(opened);
  }
  if (!job.tokenizer.empty() || !job.texts.empty() || !job.stops.empty() || chat ||
      !job.grammar.empty() || !job.schema.empty()) {
    Result<std::unique_ptr<GeneratedText>> opened =
        GeneratedText::open(*model, job.tokenizer, job.stops);
    if (!opened.ok()) return outcome(opened.status());
    text = *std::move(opened);
    for (const std::string& prompt : job.texts) {
      std::vector<ChatTurn> turns = first_turns(job);
      turns.push_back({"user", prompt});
      Result<std::vector<int32_t>> ids =
          chat ? chat_ids(*chat, *text, turns) : text->encode(prompt, true);
      if (!ids.ok()) return outcome(ids.status());
      job.prompts.push_back(*std::move(ids));
    }
  }
  if (text)
    if (Outcome o = use_grammar(job, *text); !o.ok()) return o;
  if (has_encoder && job.embeds)
    return usage("--embed needs a decoder or a text encoder, not an encoder-decoder");
  if (has_encoder && job.chats) return usage("--chat needs a decoder, not an encoder-decoder");
  if (has_encoder)
    if (Outcome o = use_encoder(job, *model); !o.ok()) return o;
  SessionOptions options;
  const Result<Device> device = parse_device(job.device);
  if (!device.ok()) return usage(device.status().message());
  options.device = *device;
  options.threads = job.threads;
  options.precision = *parse_precision(job.precision);
  GpuOfTool gpu;
  if (Status given = gpu.give_to(options); !given.ok()) return outcome(given);
  if (job.embeds) return embed(job, *model, options);
  std::optional<DType> past;
  if (!job.past.empty()) past = *parse_dtype(job.past);
  Result<Generator> generator = Generator::create(*model, options, past);
  if (!generator.ok()) return outcome(generator.status());
  add_stop_ids(*stop_ids, *generator, job.options);
  if (text) add_stop_ids(text->stop_ids(), *generator, job.options);
  std::optional<Generator> draft;
  if (!job.draft.empty()) {
    Result<Generator> opened = open_draft(job.draft, options);
    if (!opened.ok()) return outcome(opened.status());
    job.options.draft = &draft.emplace(*std::move(opened));
  }
  if (!job.cache.empty()) {
    if (Outcome o = load_cache(job, *generator); !o.ok()) return o;
  }
  if (Outcome o = answer(job, *generator, text.get(), chat.get()); !o.ok()) return o;
  if (job.cache.empty()) return {};
  const Status saved = generator->save(job.cache);
  return saved.ok() ? Outcome() : Outcome{Exit::unreadable, std::string(saved.message())};
}

}  // namespace
}  // namespace hg::tools

int main(int argc, char** argv) {
  using namespace hg::tools;
  use_utf8(argc, argv);
  CommandLine line("hg-generate", "Continues prompts with a language model.", kExamples);
  GenerateJob job;
  hg::SamplerOptions& sampler = job.options.sampler;
  line.add("MODEL", job.model, "the model, an .hgm file, for example from hg-convert model.gguf");
  line.add("--entry", job.entry, "the entry that is the language model, if the file has several");
  line.add("--adapter", job.adapters,
           "an adapter from hg-train --lora, once per adapter; several add up");
  line.add("--tokenizer", job.tokenizer, "a tokenizer.json for texts, instead of the model's own");
  line.add("--prompt", job.texts, "a prompt; once per prompt");
  const auto chat =
      line.add_flag("--chat", job.chats,
                    "hold a chat; the prompts, or lines of standard input, are its messages");
  line.add("--system", job.system, "the system message that begins the chat").needs(chat);
  line.add("--chat-template", job.chat_template,
           "a file with a chat template, instead of the model's own")
      .needs(chat);
  line.add("--stop", job.stops, "a text or special token that ends a sequence; once per text");
  line.add("--ids", job.ids, "a prompt as comma-separated token ids; once per prompt");
  line.add("--features", job.features,
           "an .npy file of f32 that the encoder reads: [prompts, ...], such as Whisper's");
  line.add("--decoder-ids", job.decoder_ids,
           "ids with which each answer of an encoder-decoder begins, instead of the file's");
  const auto embed =
      line.add_flag("--embed", job.embeds, "print embeddings of the prompts instead of answers")
          .excludes(chat);
  line.add("--pooling", job.pooling, "how the hidden states of a prompt become its embedding")
      .is_one_of({"mean", "last", "first"})
      .needs(embed)
      .shows_default();
  const auto grammar =
      line.add("--grammar", job.grammar,
               "a file with rules that each answer must follow; see hg/text/grammar.h")
          .excludes(embed);
  line.add("--json-schema", job.schema, "a file with a JSON schema that each answer must fit")
      .excludes(grammar)
      .excludes(embed);
  const auto lookup = line.add("--lookup", job.options.lookup,
                               "speculative decoding: most tokens per run to propose from "
                               "repetitions in the text; the answer is the same")
                          .is_at_least(1)
                          .excludes(embed);
  const auto draft =
      line.add("--draft", job.draft, "speculative decoding: a small model that proposes tokens")
          .excludes(lookup)
          .excludes(embed);
  line.add("--draft-tokens", job.options.draft_tokens, "most tokens that --draft proposes per run")
      .is_at_least(1)
      .needs(draft)
      .shows_default();
  line.add("--prompt-cache", job.cache,
           "a file that keeps what the model has read: a later prompt with the same beginning "
           "continues from it")
      .excludes(embed);
  line.add("--num-return-sequences", job.options.num_return_sequences, "answers per prompt")
      .is_at_least(1)
      .shows_default();
  line.add("--num-beams", job.options.num_beams, "above 1: a beam search for the likeliest answer")
      .is_at_least(1)
      .shows_default();
  line.add("--length-penalty", job.options.length_penalty,
           "scores of beams are divided by their length to this power")
      .shows_default();
  line.add("--early-stopping", job.early_stopping, "when a beam search ends, as in transformers")
      .is_one_of({"no", "yes", "never"})
      .shows_default();
  line.add("--max-tokens", job.options.max_tokens, "new tokens per prompt")
      .is_at_least(0)
      .shows_default();
  line.add("--stop-id", job.stop_ids, "a token id that ends a sequence; once per id");
  line.add("--temperature", sampler.temperature, "divides logits; 0: the largest logit")
      .shows_default();
  line.add("--top-k", sampler.top_k, "keep the k most likely tokens; 0: all").shows_default();
  line.add("--top-p", sampler.top_p, "keep the most likely tokens until their sum is top-p")
      .shows_default();
  line.add("--min-p", sampler.min_p, "drop tokens less likely than min-p times the most likely")
      .shows_default();
  line.add("--repetition-penalty", sampler.repetition_penalty,
           "above 1: tokens that have occurred become less likely")
      .shows_default();
  line.add("--seed", sampler.seed, "seed of the draws").shows_default();
  line.add_flag("--log-probabilities", job.options.log_probabilities,
                "with --json: the logarithm of each token's probability")
      .needs(line.add_flag("--json", job.as_json, "print JSON"));
  line.add("--device", job.device, "cpu, vulkan or auto").shows_default();
  line.add("--past", job.past,
           "keep keys and values as f32, f16, bf16 or i8; default: as the model has them")
      .is_one_of({"f32", "f16", "bf16", "i8"})
      .excludes(embed);
  line.add("--precision", job.precision,
           "i8: round inputs of products with quantized weights to 8 bits; bf16: round weights of "
           "products to 16 bits")
      .is_one_of({"f32", "bf16", "i8"})
      .shows_default();
  line.add("--threads", job.threads, "number of threads; 0: all").is_at_least(0).shows_default();
  if (const std::optional<int> code = line.parse(argc, argv)) return *code;
  return finish("hg-generate", run(job));
}
