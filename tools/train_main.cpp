// SPDX-License-Identifier: Apache-2.0
// hg-train: trains a model on .npy files.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>

#include "tools/command_line/command_line.h"
#include "tools/gpu.h"
#include "tools/process.h"
#include "tools/profile.h"
#include "tools/train_job.h"

namespace hg::tools {
namespace {

constexpr char kExamples[] = R"(Examples:
  hg-train model.hgm --input x.npy --target y.npy --loss mse --optimizer adamw --lr 1e-3 \
           --epochs 10 --batch 32 --out trained.hgm
  hg-train net.hgm --input images.npy --target labels.npy --loss cross_entropy --metric accuracy \
           --optimizer sgd --lr 0.1 --momentum 0.9 --schedule cosine --validation-split 0.1 \
           --best best.hgm --svg curve.svg --json log.json --out trained.hgm
  hg-train net.hgm --input x.npy --target y.npy --freeze 'backbone.*' --mode as-traced --out t.hgm
  hg-train small.hgm --input x.npy --target y.npy --lora 'layers.*.q_proj' --rank 8 --out adapter.hgm

The first dimension of every file counts samples, except with --batch all. f32 inputs also accept
f64 files, and i64 inputs integer files. A PATTERN selects parameters: '*' matches any characters.
Several losses add up: --loss boxes=smooth_l1*2 --loss classes=cross_entropy, one --target each.
The trained file holds the optimizer's state, so further training continues exactly. The same
command with --finish completes an interrupted run. Ctrl-C saves and ends. With --entry, the trained
file has all entries of MODEL, and weights that the entries share are trained in all of them.

Exit codes: 0 ok, 1 usage, 2 file cannot be read or written, 3 unsupported, 4 model, data and
options do not fit, or the loss is not finite, 130 interrupted by Ctrl-C and saved.)";

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);  // a second signal ends the process
}

// A single line that is overwritten, only on a terminal.
class ProgressLine {
 public:
  ProgressLine() : shown_(is_terminal(stderr)) {}

  void update(const Progress& p) {
    const auto now = std::chrono::steady_clock::now();
    if (p.is_epoch) {
      if (p.validation != nullptr)
        validation_ = str_cat("  validation ", number(p.validation->loss));
      return;
    }
    if (first_step_ < 0) {
      first_step_ = p.step - 1;
      start_ = now - std::chrono::microseconds(static_cast<int64_t>(p.ms * 1000));
    }
    if (!shown_ || (now - last_ < std::chrono::milliseconds(100) && p.step < p.steps)) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const auto done = static_cast<double>(p.step - first_step_);
    const auto all = static_cast<double>(std::max<int64_t>(p.steps - first_step_, 1));
    const double left = seconds / done * (all - done);
    constexpr int kBar = 24;
    char bar[kBar + 1] = {};
    for (int i = 0; i < kBar; ++i) bar[i] = i < done / all * kBar ? '#' : '.';
    // Clears the rest of a longer line.
    std::fprintf(stderr,
                 "\r[%s] epoch %lld/%lld  loss %.5g%s  lr %.3g  %.1f steps/s  %s left\033[K", bar,
                 static_cast<long long>(p.epoch), static_cast<long long>(p.epochs), p.loss,
                 validation_.c_str(), p.lr, done / std::max(seconds, 1e-9), span(left).c_str());
    is_open_ = true;
  }
  void finish() {
    if (is_open_) std::fputc('\n', stderr);
    is_open_ = false;
  }

 private:
  static std::string number(double value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.5g", value);
    return digits;
  }
  // "45 s", "12:07" or "3:05:00"
  static std::string span(double seconds) {
    const auto all = static_cast<long long>(std::ceil(seconds));
    char digits[64];
    if (all < 60)
      std::snprintf(digits, sizeof digits, "%lld s", all);
    else if (all < 3600)
      std::snprintf(digits, sizeof digits, "%lld:%02lld", all / 60, all % 60);
    else
      std::snprintf(digits, sizeof digits, "%lld:%02lld:%02lld", all / 3600, all / 60 % 60,
                    all % 60);
    return digits;
  }

  bool shown_, is_open_ = false;
  std::string validation_;  // of the last epoch
  int64_t first_step_ = -1;
  std::chrono::steady_clock::time_point start_, last_;
};

const std::map<std::string, TrainOptions::Mode> kModes = {
    {"training", TrainOptions::Mode::training}, {"as-traced", TrainOptions::Mode::as_traced}};
const std::map<std::string, Reduction> kReductions = {{"mean", Reduction::mean},
                                                      {"sum", Reduction::sum}};
const std::map<std::string, DType> kPrecisions = {{"f32", f32}, {"bf16", bf16}, {"f16", f16}};

template <class T>
std::string words_of(const std::map<std::string, T>& names) {
  std::string out;
  for (const auto& [word, value] : names) out += str_cat(out.empty() ? "" : ", ", word);
  return out;
}

// An option whose value is one of some names.
template <class T>
void add_choice(CommandLine& line, const std::string& name, T& value,
                const std::map<std::string, T>& names, const std::string& about) {
  line.add(
      name,
      [&names, &value](const std::string& word) {
        const auto found = names.find(word);
        if (found == names.end()) return usage(word, " is not one of ", words_of(names));
        value = found->second;
        return Outcome();
      },
      about + ": " + words_of(names));
}

// An option whose names the library defines.
template <class T>
void add_word(CommandLine& line, const std::string& name, T& value,
              Result<T> (*named)(std::string_view), const std::string& about) {
  line.add(
      name,
      [&value, named](const std::string& word) {
        const Result<T> found = named(word);
        if (!found.ok()) return usage(found.status().message());
        value = *found;
        return Outcome();
      },
      about);
}

// "512M", "2G", "65536"
Outcome parse_bytes(const std::string& word, int64_t& bytes) {
  size_t used = 0;
  double value = -1;
  try {
    value = std::stod(word, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = word.substr(used);
  const double factor = unit.empty() || unit == "B"    ? 1
                        : unit == "K" || unit == "KiB" ? 1024.0
                        : unit == "M" || unit == "MiB" ? 1024.0 * 1024
                        : unit == "G" || unit == "GiB" ? 1024.0 * 1024 * 1024
                                                       : -1;
  if (used == 0 || !(value > 0) || factor < 0 || value * factor > 1e18)
    return usage(word, " is not a size such as 512M");
  bytes = static_cast<int64_t>(value * factor);
  return {};
}

struct Words {  // texts to convert after all options are parsed
  std::string device = "cpu";
  std::optional<double> weight_decay, lr;
  std::vector<double> betas;
  bool no_shuffle = false, fresh = false, quantize_aware = false;
  QuantizeOptions quantize;
};

void add_files(CommandLine& line, TrainJob& job) {
  line.add("MODEL", job.model, "the model, an .hgm file");
  line.add("--entry", job.entry, "the entry to train, if the file has several");
  line.add("--adapter", job.adapters,
           "continue to train this adapter; --out is then also an adapter");
  line.add("--input,-i", job.inputs, "[NAME=]FILE.npy, once per input");
  line.add("--target,-t", job.targets, "FILE.npy, once per loss");
  line.add("--validation-input", job.validation_inputs, "like --input, for validation");
  line.add("--validation-target", job.validation_targets, "like --target, for validation");
  line.add("--validation-split", job.validation_split,
           "validate on this last part of the samples, such as 0.1")
      .is_between(0.0, 1.0);
  line.add("--out,-o", job.out, "the file for the trained model or adapter");
  line.add("--best", job.best, "the file for the model with the lowest loss");
  line.add("--export", job.weights,
           "also write the trained weights to this .npz or .safetensors file, by their names in "
           "state_dict()");
  line.add("--save-every", job.save_every, "also save every N epochs").is_at_least(0);
  line.add("--json", job.log, "write losses, times and plan to this file");
  line.add("--svg", job.svg, "draw the loss curve to this file");
}

void add_goal(CommandLine& line, TrainJob& job, Words& words) {
  line.add("--loss", job.losses,
           "[OUTPUT=]KIND[*WEIGHT]; KIND is mse, l1, smooth_l1, huber, cross_entropy, nll, "
           "bce, bce_with_logits, kl_div, or output (the model's output is the loss)");
  add_choice(line, "--reduction", job.loss.reduction, kReductions, "reduction of the losses");
  line.add("--label-smoothing", job.loss.label_smoothing, "label smoothing of cross_entropy");
  line.add("--ignore-index", job.loss.ignore_index, "class ignored by cross_entropy and nll");
  line.add("--class-weights", job.loss.class_weights,
           "class weights of cross_entropy and nll: w0,w1,...")
      .is_list();
  line.add("--beta", job.loss.beta, "beta of smooth_l1 and delta of huber");
  line.add_flag("--log-target", job.loss.log_target, "targets of kl_div are logarithms");
  line.add("--metric", job.metrics,
           "[OUTPUT=]KIND on the validation data; KIND is accuracy or mean_error");
  line.add("--l1", job.l1, "PATTERN=NUMBER: add NUMBER * sum |w| to the loss");
  line.add("--l2", job.l2, "PATTERN=NUMBER: add NUMBER * sum w^2 to the loss");
  const auto add_rule = [&](const std::string& name, bool frozen, const std::string& about) {
    line.add(
            name,
            [&job, frozen](const std::string& pattern) {
              job.options.rules.push_back({.pattern = pattern, .frozen = frozen});
              return Outcome();
            },
            about)
        .is_taken_in_order();
  };
  add_rule("--thaw", false,
           "PATTERN: train these parameters although the model marks them requires_grad=False, or "
           "--freeze before it matches them");
  add_rule("--freeze", true,
           "PATTERN: do not change these parameters and their layers, unless --thaw after it "
           "matches them");
  const auto lora = line.add(
      "--lora", job.lora,
      "PATTERN: train a low-rank adapter of these layers, such as 'layers.*.q_proj', and write "
      "it alone to --out");
  line.add("--rank", job.rank, "rank of the adapter").is_at_least(1).shows_default().needs(lora);
  line.add("--lora-alpha", job.alpha,
           "the product of the adapter is multiplied by this number / rank; default: the rank")
      .needs(lora);
  const auto aware = line.add_flag(
      "--quantize-aware", words.quantize_aware,
      "train the weights for hg-quantize with these options: passes use rounded weights, --out has "
      "floats");
  QuantizeOptions& q = words.quantize;
  line.add("--bits", q.bits, "bits per weight: 8 or 4").is_one_of({"8", "4"}).needs(aware);
  line.add("--group", q.group, "input channels that share a scale; 0: all")
      .is_at_least(0)
      .needs(aware);
  line.add("--keep", q.keep, "a weight, or a module with all its weights, to leave in floats")
      .needs(aware);
  line.add("--least", q.least, "leave weights with fewer elements in floats")
      .is_at_least(0)
      .needs(aware);
  add_choice(line, "--mode", job.options.mode, kModes, "mode of dropout and batch_norm");
}

void add_optimizer(CommandLine& line, TrainJob& job, Words& words) {
  Optimizer& o = job.options.optimizer;
  o.kind = Optimizer::Kind::adamw;
  add_word(line, "--optimizer", o.kind, parse_optimizer,
           "sgd, adam, adamw or rmsprop; default: adamw");
  line.add("--lr", words.lr, "learning rate; default: 1e-3, rmsprop: 1e-2");
  line.add("--weight-decay", words.weight_decay,
           "weight decay; default: 0.01 for adamw, otherwise 0");
  line.add("--lr-for", job.lr_for, "PATTERN=NUMBER: learning rate of these parameters");
  line.add("--weight-decay-for", job.weight_decay_for,
           "PATTERN=NUMBER: weight decay of these parameters");
  line.add("--momentum", o.momentum, "momentum of sgd and rmsprop");
  line.add("--dampening", o.dampening, "dampening of sgd");
  line.add_flag("--nesterov", o.nesterov, "use Nesterov momentum in sgd");
  line.add("--betas", words.betas, "betas of adam and adamw: 0.9,0.999").is_list(2);
  line.add("--eps", o.eps, "epsilon of adam, adamw and rmsprop");
  line.add_flag("--amsgrad", o.amsgrad, "use AMSGrad in adam and adamw");
  line.add("--alpha", o.alpha, "smoothing constant of rmsprop");
  line.add_flag("--centered", o.centered, "center the gradients in rmsprop");
  line.add_flag("--maximize", o.maximize, "maximize the loss instead of minimizing it");
  line.add("--clip-norm", job.options.clip_norm, "clip the norm of all gradients together");
  line.add("--clip-value", job.options.clip_value, "clip each element of the gradients");
  line.add("--accumulate", job.options.accumulate, "batches per update").is_at_least(1);
  Schedule& s = job.options.schedule;
  add_word(line, "--schedule", s.kind, parse_schedule,
           "rate schedule: constant, step, exponential, linear, cosine, one_cycle or plateau");
  line.add_flag("--schedule-by-epoch", s.by_epoch, "schedule ticks are epochs instead of updates");
  line.add("--warmup", s.warmup, "ticks during which the rate rises");
  line.add("--step-size", s.period, "step: ticks between two drops");
  line.add("--gamma", s.gamma, "step, exponential, plateau: factor of a drop");
  line.add("--min-lr", s.min_lr, "cosine, plateau: lowest rate");
  line.add("--plateau-patience", s.patience, "plateau: epochs without progress before a drop");
  line.add_flag("--plateau-maximize", s.maximize,
                "plateau: raise the first metric on validation data instead of lowering the loss");
  line.add("--cooldown", s.cooldown, "plateau: epochs to wait after a drop");
  line.add("--rise", s.rise, "one_cycle: fraction during which the rate rises");
}

void add_run(CommandLine& line, TrainJob& job, Words& words) {
  line.add("--epochs", job.fit.epochs, "passes over the samples").is_at_least(1);
  line.add_samples_or_all("--batch", job.fit.batch,
                          "samples per step; all: every step uses the whole files, such as the "
                          "nodes and edges of a graph");
  line.add("--patience", job.fit.patience, "stop after N epochs without a better loss")
      .is_at_least(0);
  line.add("--seed", job.options.session.seed, "seed of shuffling and dropout");
  line.add_flag("--no-shuffle", words.no_shuffle, "keep the order of the samples");
  line.add_flag("--finish", job.fit.finish, "count epochs from the start of the file's training");
  line.add_flag("--fresh", words.fresh, "ignore the optimizer state in the file");
  line.add(
      "--checkpoint",
      [&job](const std::string& word) {
        if (word != "sqrt" && word != "none") return usage(word, " is not one of none, sqrt");
        job.options.session.checkpoint = word == "sqrt" ? Checkpoint::sqrt : Checkpoint::none;
        return Outcome();
      },
      "activations to recompute, independent of --memory-limit: none, sqrt");
  line.add_flag("--profile", job.options.session.profile, "print the time of each node of a step");
  add_choice(line, "--precision", job.options.compute, kPrecisions, "precision of matrix products");
  line.add("--device", words.device, "cpu, vulkan or auto").shows_default();
  line.add("--threads", job.options.session.threads, "number of threads; 0: all").is_at_least(0);
  line.add(
      "--memory-limit",
      [&job](const std::string& word) {
        return parse_bytes(word, job.options.session.memory_limit);
      },
      "limit for activations, packed weights and states, such as 512M");
}

Outcome complete(TrainJob& job, const Words& words) {
  if (job.model.empty()) return usage("no MODEL is given; see hg-train --help");
  if (job.out.empty()) return usage("no --out is given");
  if (!job.lora.empty() && !job.adapters.empty())
    return usage("--lora makes a new adapter and --adapter trains an old one; give one of them");
  const auto thaws = [](const ParameterRule& rule) { return rule.frozen == false; };
  if (std::ranges::any_of(job.options.rules, thaws) && !(job.lora.empty() && job.adapters.empty()))
    return usage("--thaw trains weights of the model, which the file of an adapter does not have");
  const Result<Device> device = parse_device(words.device);
  if (!device.ok()) return usage(device.status().message());
  job.options.session.device = *device;
  Optimizer& o = job.options.optimizer;
  o.lr = words.lr.value_or(o.kind == Optimizer::Kind::rmsprop ? 1e-2 : 1e-3);
  o.weight_decay = words.weight_decay.value_or(o.kind == Optimizer::Kind::adamw ? 0.01 : 0);
  if (words.betas.size() == 2) o.beta1 = words.betas[0], o.beta2 = words.betas[1];
  job.fit.shuffle = !words.no_shuffle;
  job.options.resume = !words.fresh;
  if (words.quantize_aware) job.options.quantize = words.quantize;
  return {};
}

}  // namespace
}  // namespace hg::tools

int main(int argc, char** argv) {
  using namespace hg::tools;
  use_utf8(argc, argv);
  CommandLine line("hg-train", "Trains a Hologram model on .npy files.", kExamples);
  GpuOfTool gpu;
  TrainJob job;
  Words words;
  add_files(line, job);
  add_goal(line, job, words);
  add_optimizer(line, job, words);
  add_run(line, job, words);
  if (const std::optional<int> code = line.parse(argc, argv)) return *code;
  if (const Outcome o = complete(job, words); !o.ok()) return finish("hg-train", o);
  if (const hg::Status opened = gpu.give_to(job.options.session); !opened.ok())
    return finish("hg-train", outcome(opened));
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  ProgressLine progress_line;
  TrainSummary summary;
  const Outcome result = train(
      job,
      [&](const std::vector<std::string>& notes, const hg::Memory& memory) {
        for (const std::string& note : notes) std::printf("note: %s\n", note.c_str());
        if (job.options.session.memory_limit > 0 ||
            job.options.session.checkpoint != hg::Checkpoint::none)
          std::printf("a step takes %.4g MB and computes %.3g MFLOPs again\n",
                      static_cast<double>(memory.peak_bytes) / 1e6, memory.extra_flops / 1e6);
        std::fflush(stdout);
      },
      [&](const hg::Progress& progress) {
        progress_line.update(progress);
        return interrupted == 0;
      },
      summary);
  progress_line.finish();
  if (!result.ok()) return finish("hg-train", result);
  std::printf("%s: loss %.6g at first, %.6g %s, %lld steps of %.3g ms\n", job.out.c_str(),
              summary.first_loss, summary.last_loss,
              summary.epochs > 0 ? "in the last epoch" : "at last",
              static_cast<long long>(summary.steps), summary.ms_per_step);
  if (!summary.validation.empty()) std::printf("validation: %s\n", summary.validation.c_str());
  if (summary.was_early)
    std::printf("stopped early: no lower loss for %lld epochs\n",
                static_cast<long long>(job.fit.patience));
  if (!job.best.empty() && summary.best_epoch > 0)
    std::printf("%s: loss %.6g, of epoch %lld\n", job.best.c_str(), summary.best_loss,
                static_cast<long long>(summary.best_epoch));
  else if (!job.best.empty() && summary.epochs > 0)
    std::printf("%s: not written, since no epoch has a lower loss than earlier training\n",
                job.best.c_str());
  if (summary.was_stopped)
    std::printf(
        "interrupted and saved; the same command with %s'%s'%s and --finish does the rest\n",
        job.lora.empty() ? "" : "--adapter ", job.out.c_str(),
        job.lora.empty() ? "" : " instead of --lora");
  if (job.options.session.profile) {
    const hg::Result<MachinePeak> peak = measure_peak(job.options.session.threads);
    if (!peak.ok()) return finish("hg-train", outcome(peak.status()));
    std::fputs(profile_text(summary.profile, *peak).c_str(), stdout);
  }
  return summary.was_stopped ? 130 : 0;
}
