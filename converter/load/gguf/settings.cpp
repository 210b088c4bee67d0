// SPDX-License-Identifier: Apache-2.0
#include "converter/load/gguf/settings.h"

#include <algorithm>
#include <cmath>

#include "converter/core/failure.h"

namespace hg::convert::gguf {
namespace {

// Keys after the architecture's prefix, such as "llama.", that the tensors already imply or that do
// not affect a run.
constexpr std::string_view kIgnored[] = {
    "vocab_size",
    "feed_forward_length",
    "expert_feed_forward_length",
    "expert_shared_count",
    "tensor_data_layout",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
};

class Reader {
 public:
  Reader(const File& file, std::string architecture)
      : file_(file), prefix_(std::move(architecture) + ".") {}

  std::optional<int64_t> integer(std::string_view key) { return file_.integer(known(key)); }
  std::optional<double> real(std::string_view key) { return file_.real(known(key)); }
  std::optional<bool> flag(std::string_view key) { return file_.flag(known(key)); }
  std::optional<std::string> text(std::string_view key) { return file_.text(known(key)); }

  // Returns a positive number; required unless a default is given.
  int64_t size(std::string_view key, int64_t otherwise = 0) {
    const auto given = integer(key);
    if (!given && otherwise == 0) miss(key);
    return given ? in_range(key, *given) : otherwise;
  }
  // As size(). A list with one number per layer is accepted if the numbers are equal.
  int64_t size_of_layers(std::string_view key, int64_t layers, int64_t otherwise = 0) {
    const auto entry = file_.metadata().find(known(key));
    const auto* list = entry == file_.metadata().end()
                           ? nullptr
                           : std::get_if<std::vector<int64_t>>(&entry->second);
    if (list == nullptr) return size(key, otherwise);
    if (static_cast<int64_t>(list->size()) != layers)
      refuse(key,
             str_cat("a list of ", uint64_t{list->size()}, " numbers for ", layers, " layers"));
    for (const int64_t value : *list)
      if (value != list->front())
        refuse(key, str_cat("a list with ", list->front(), " and ", value));
    return in_range(key, list->front());
  }
  // Returns a positive number; required unless a default is given.
  double positive(std::string_view key, double otherwise = 0) {
    const auto given = real(key);
    if (!given && otherwise == 0) miss(key);
    const double value = given.value_or(otherwise);
    if (!std::isfinite(value) || value <= 0) refuse(key, str_cat(value));
    return value;
  }

  [[noreturn]] void refuse(std::string_view key, const std::string& value) const {
    throw Failure{Exit::unsupported, str_cat(file_.label(), ": '", prefix_, key, "' is ", value,
                                             ", which is not supported")};
  }
  void refuse_unknown() const {
    for (const auto& [key, value] : file_.metadata()) {
      if (!key.starts_with(prefix_)) continue;
      const std::string_view rest = key.substr(prefix_.size());
      if (std::find(known_.begin(), known_.end(), rest) == known_.end() &&
          std::find(std::begin(kIgnored), std::end(kIgnored), rest) == std::end(kIgnored))
        throw Failure{Exit::unsupported,
                      str_cat(file_.label(), ": the setting '", key, "' is not supported")};
    }
  }

 private:
  int64_t in_range(std::string_view key, int64_t value) const {
    constexpr int64_t kMost = int64_t{1} << 24;
    if (value < 1 || value > kMost) refuse(key, str_cat(value));
    return value;
  }
  [[noreturn]] void miss(std::string_view key) const {
    throw Failure{Exit::unreadable,
                  str_cat(file_.label(), ": the file does not state '", prefix_, key, "'")};
  }
  std::string known(std::string_view key) {
    known_.emplace_back(key);
    return prefix_ + std::string(key);
  }

  const File& file_;
  const std::string prefix_;
  std::vector<std::string> known_;
};

const Architecture& architecture_of(const File& file) {
  const auto name = file.text("general.architecture");
  if (!name)
    throw Failure{Exit::unreadable,
                  file.label() + ": the GGUF file does not state its architecture"};
  std::string all;
  for (const Architecture& each : kArchitectures) {
    if (each.name == *name) return each;
    all += str_cat(all.empty() ? "" : " ", each.name);
  }
  throw Failure{Exit::unsupported, str_cat(file.label(), ": the architecture '", *name,
                                           "' is not supported; these are: ", all)};
}

void read_rope(Reader& reader, Settings& s) {
  const Architecture& a = *s.architecture;
  if (a.rope == Rope::none) return;
  s.rotated = reader.size("rope.dimension_count", s.head_dim);
  if (s.rotated % 2 != 0 || s.rotated > s.head_dim)
    reader.refuse("rope.dimension_count", str_cat(s.rotated));
  s.rope_base = reader.positive("rope.freq_base", 10000);
  const std::string scaling = reader.text("rope.scaling.type").value_or("none");
  if (scaling == "linear")
    s.rope_scale = reader.positive("rope.scaling.factor", 1);
  else if (scaling != "none")
    reader.refuse("rope.scaling.type", "'" + scaling + "'");
  else if (const double factor = reader.real("rope.scaling.factor").value_or(1); factor != 1)
    reader.refuse("rope.scaling.factor", str_cat(factor, " without a type"));
  if (const double old = reader.real("rope.scale_linear").value_or(1); old != 1)
    reader.refuse("rope.scale_linear", str_cat(old));
  if (const double factor = reader.real("rope.scaling.attn_factor").value_or(1); factor != 1)
    reader.refuse("rope.scaling.attn_factor", str_cat(factor));
}

void read_attention(Reader& reader, Settings& s) {
  const Architecture& a = *s.architecture;
  s.heads = reader.size_of_layers("attention.head_count", s.layers);
  s.kv_heads = reader.size_of_layers("attention.head_count_kv", s.layers, s.heads);
  if (s.heads % s.kv_heads != 0)
    reader.refuse("attention.head_count_kv",
                  str_cat(s.kv_heads, " of ", s.heads, " heads, which it does not divide"));
  s.head_dim = reader.size("attention.key_length", std::max<int64_t>(s.width / s.heads, 1));
  s.value_dim = reader.size("attention.value_length", s.head_dim);
  s.eps = reader.positive(a.norm == Norm::rms ? "attention.layer_norm_rms_epsilon"
                                              : "attention.layer_norm_epsilon");
  if (!reader.flag("attention.causal").value_or(true)) reader.refuse("attention.causal", "false");
  s.window = reader.integer("attention.sliding_window").value_or(a.window);
  if (s.window < 0 || (s.window > 0 && a.window_period == 0))
    reader.refuse("attention.sliding_window", str_cat(s.window));
  if (a.softcaps) {
    s.score_softcap = reader.positive("attn_logit_softcapping", 50);
    s.logit_softcap = reader.positive("final_logit_softcapping", 30);
  }
  const double root = s.layers == a.layers_with_width_scale
                          ? static_cast<double>(s.width) / static_cast<double>(s.heads)
                          : static_cast<double>(s.head_dim);
  s.score_scale = 1 / std::sqrt(root);
}

}  // namespace

Settings read_settings(const File& file) {
  Settings s;
  s.architecture = &architecture_of(file);
  Reader reader(file, std::string(s.architecture->name));
  s.layers = reader.size("block_count");
  if (const uint64_t tensors = file.tensors().size(); static_cast<uint64_t>(s.layers) > tensors)
    reader.refuse("block_count", str_cat(s.layers, " with ", tensors, " tensors"));
  s.width = reader.size("embedding_length");
  s.context = reader.integer("context_length").value_or(0);
  read_attention(reader, s);
  read_rope(reader, s);
  s.experts = reader.integer("expert_count").value_or(0);
  s.experts_used = reader.integer("expert_used_count").value_or(0);
  if (s.experts < 0 || s.experts > (1 << 16)) reader.refuse("expert_count", str_cat(s.experts));
  if (s.experts_used < (s.experts > 0 ? 1 : 0) || s.experts_used > s.experts)
    reader.refuse("expert_used_count", str_cat(s.experts_used, " of ", s.experts));
  if (const double scale = reader.real("expert_weights_scale").value_or(1);
      scale != 1 && scale != 0)
    reader.refuse("expert_weights_scale", str_cat(scale));
  s.shared_expert = s.architecture->shared_expert ||
                    reader.integer("expert_shared_feed_forward_length").value_or(0) > 0;
  reader.refuse_unknown();
  return s;
}

}  // namespace hg::convert::gguf
