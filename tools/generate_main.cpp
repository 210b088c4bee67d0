// SPDX-License-Identifier: Apache-2.0
// hg-generate: continues prompts, texts or token ids, with a language model.
#include <charconv>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "hg/generator.h"
#include "hg/text/model_files.h"
#include "tools/chat_prompts.h"
#include "tools/command_line/command_line.h"
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

With --prompt, --stop or --tokenizer, prints the text of the answer, for a single prompt as it is
generated; otherwise the new ids of each prompt as a line. Stop ids and stop texts do not belong to
the answer. Prompts run together.
The tokenizer and the stop ids are those in the model file (hg-info lists attached files):
tokenizer.json, and eos_token_id of generation_config.json. --stop-id adds further stop ids.
With --chat, each prompt is a message of a user, and the model's chat template makes the prompt:
chat_template.jinja in the model file. Without a prompt, each line of standard input is a message,
and the model sees the whole conversation.
The sampler has the order and the definitions of transformers: repetition penalty, temperature,
top k, top p, min p. Without a temperature, the token with the largest logit is chosen.

--json prints an object, or a list of objects if there are several prompts: ids, finish (length or
stop), prompt_tokens, tokens; prompt_ms and decode_ms, which are the time of the first run and of
all later runs, for all prompts together; text, unless only ids are printed; with
--log-probabilities, log_probabilities.

Exit codes: 0 ok, 1 usage, 2 unreadable file, 3 unsupported, 4 prompts and model do not fit.)";

struct GenerateJob {
  std::string model, entry, tokenizer, chat_template, system, device = "cpu", precision = "f32";
  int threads = 0;
  std::vector<std::string> ids, stop_ids, texts, stops;  // as given
  std::vector<std::vector<int32_t>> prompts;
  GenerateOptions options;
  bool as_json = false, chats = false;
};

// Adds the ids in "5,17,3".
Outcome parse_ids(std::string_view option, const std::string& text, std::vector<int32_t>& ids) {
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

nlohmann::ordered_json json_of(const GenerateJob& job, const Generation& answer,
                               const std::vector<std::string>& texts, size_t prompt) {
  const GeneratedSequence& sequence = answer.sequences[prompt];
  nlohmann::ordered_json row = {{"ids", sequence.ids},
                                {"finish", to_string(sequence.finish)},
                                {"prompt_tokens", job.prompts[prompt].size()},
                                {"tokens", sequence.ids.size()},
                                {"prompt_ms", answer.prompt_ms},
                                {"decode_ms", answer.decode_ms}};
  if (!texts.empty()) row["text"] = texts[prompt];
  if (job.options.log_probabilities) row["log_probabilities"] = sequence.log_probabilities;
  return row;
}

// `texts`: the answer to each prompt, or empty.
std::string text_of(const GenerateJob& job, const Generation& answer,
                    const std::vector<std::string>& texts) {
  if (job.as_json) {
    if (job.prompts.size() == 1) return json_of(job, answer, texts, 0).dump() + "\n";
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (size_t i = 0; i < job.prompts.size(); ++i) list.push_back(json_of(job, answer, texts, i));
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
  if (job.ids.empty() && job.texts.empty() && !job.chats)
    return usage("no prompt is given: use --ids or --prompt; see hg-generate --help");
  if (!job.ids.empty() && !job.texts.empty()) return usage("use either --ids or --prompt");
  for (const std::string& text : job.ids)
    if (Outcome o = parse_ids("--ids", text, job.prompts.emplace_back()); !o.ok()) return o;
  for (const std::string& text : job.stop_ids)
    if (Outcome o = parse_ids("--stop-id", text, job.options.stop_ids); !o.ok()) return o;
  if (const auto made = Sampler::create(job.options.sampler); !made.ok())
    return usage(made.status().message());
  return {};
}

// Generates with a tokenizer. Prints a single text as it arrives, except for JSON. `texts`: the
// answers.
Outcome generate_text(GenerateJob& job, Generator& generator, GeneratedText& text,
                      std::vector<std::string>& texts) {
  const bool streams = job.prompts.size() == 1 && !job.as_json;
  texts.assign(job.prompts.size(), "");
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
  text.begin(job.prompts.size());
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

Outcome run(GenerateJob& job) {
  if (Outcome o = read(job); !o.ok()) return o;
  const Result<Model> model = load_model(job.model, job.entry);
  if (!model.ok()) return outcome(model.status());
  const Result<std::vector<int32_t>> stop_ids = stop_ids_of(*model);
  if (!stop_ids.ok()) return outcome(stop_ids.status());
  job.options.stop_ids.insert(job.options.stop_ids.end(), stop_ids->begin(), stop_ids->end());
  std::unique_ptr<GeneratedText> text;
  std::unique_ptr<ChatPrompts> chat;
  if (job.chats) {
    Result<std::unique_ptr<ChatPrompts>> opened = ChatPrompts::open(*model, job.chat_template);
    if (!opened.ok()) return outcome(opened.status());
    chat = *std::move(opened);
  }
  if (!job.tokenizer.empty() || !job.texts.empty() || !job.stops.empty() || chat) {
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
    job.options.stop_ids.insert(job.options.stop_ids.end(), text->stop_ids().begin(),
                                text->stop_ids().end());
  }
  SessionOptions options;
  const Result<Device> device = parse_device(job.device);
  if (!device.ok()) return usage(device.status().message());
  options.device = *device;
  options.threads = job.threads;
  options.precision = *parse_precision(job.precision);
  GpuOfTool gpu;
  if (Status given = gpu.give_to(options); !given.ok()) return outcome(given);
  Result<Generator> generator = Generator::create(*model, options);
  if (!generator.ok()) return outcome(generator.status());
  if (chat && job.texts.empty()) return converse(job, *generator, *text, *chat);
  std::vector<std::string> answers;
  if (text) return generate_text(job, *generator, *text, answers);
  const Result<Generation> answer = generator->generate(job.prompts, job.options);
  if (!answer.ok()) return outcome(answer.status());
  std::fputs(text_of(job, *answer, {}).c_str(), stdout);
  return {};
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
  line.add("--tokenizer", job.tokenizer, "a tokenizer.json for texts, instead of the model's own");
  line.add("--prompt", job.texts, "a prompt; once per prompt");
  const auto chat = line.add_flag(
      "--chat", job.chats, "prompts are messages; without --prompt, those of standard input");
  line.add("--system", job.system, "the system message before the messages").needs(chat);
  line.add("--chat-template", job.chat_template,
           "a file with a chat template, instead of the model's own")
      .needs(chat);
  line.add("--stop", job.stops, "a text or special token that ends a sequence; once per text");
  line.add("--ids", job.ids, "a prompt: token ids with commas between them; once per prompt");
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
  line.add("--precision", job.precision,
           "i8: round inputs of products with quantized weights to 8 bits; bf16: round weights of "
           "products to 16 bits")
      .is_one_of({"f32", "bf16", "i8"})
      .shows_default();
  line.add("--threads", job.threads, "number of threads; 0: all").is_at_least(0).shows_default();
  if (const std::optional<int> code = line.parse(argc, argv)) return *code;
  return finish("hg-generate", run(job));
}
