// SPDX-License-Identifier: Apache-2.0
#include "python/src/options.h"

#include <nanobind/stl/string.h>
#include <pthread.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>

#include "hg/eager.h"
#include "python/src/attributes.h"
#include "python/src/callbacks.h"
#include "python/src/tensors.h"

namespace hg::python {
namespace {

std::atomic<bool> forked = false;

// A str, or the path of an os.PathLike.
std::string text_from(nb::handle value) {
  const nb::object text = nb::steal(PyOS_FSPath(value.ptr()));
  PyErr_Clear();
  if (!text.is_valid() || !PyUnicode_Check(text.ptr())) throw std::invalid_argument("no text");
  std::string out = words(text);
  if (out.find('\0') != std::string::npos) throw std::invalid_argument("has a null character");
  return out;
}

// The fields of a dict by name. Each is read once; fields that were not read are rejected.
class Fields {
 public:
  Fields(const nb::dict& given, std::string what) : what_(std::move(what)) {
    for (const auto& [name, value] : given) left_.emplace(words(name), nb::borrow(value));
  }

  template <class T>
  Fields& get(const char* name, T& to) {
    if (nb::object value = pop(name); value.is_valid() && !value.is_none()) read(value, name, to);
    return *this;
  }
  template <class T>
  Fields& get(const char* name, T& to, const std::function<T(nb::handle)>& convert) {
    if (nb::object value = pop(name); value.is_valid() && !value.is_none()) to = convert(value);
    return *this;
  }
  // The names of enum values, by their parsing function.
  template <class T>
  Fields& word(const char* name, T& to, Result<T> (*named)(std::string_view)) {
    if (nb::object value = pop(name); value.is_valid() && !value.is_none())
      to = take(named(words(value)));
    return *this;
  }
  void end() {
    if (left_.empty()) return;
    raise(PyExc_TypeError, what_ + " has no '" + left_.begin()->first + "'");
  }

 private:
  nb::object pop(const char* name) {
    const auto found = left_.find(name);
    if (found == left_.end()) return {};
    nb::object value = std::move(found->second);
    left_.erase(found);
    return value;
  }
  template <class T>
  void read(nb::handle value, const char* name, T& to) {
    try {
      if constexpr (std::is_same_v<T, double>)
        to = nb::cast<double>(nb::float_(nb::borrow(value)));
      else if constexpr (std::is_same_v<T, std::string>)
        to = text_from(value);
      else if constexpr (std::is_same_v<T, bool>)
        to = truth(value);
      else if constexpr (std::is_same_v<T, std::vector<double>>) {
        to.clear();
        for (const nb::handle each : value)
          to.push_back(nb::cast<double>(nb::float_(nb::borrow(each))));
      } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
        to.clear();
        for (const nb::handle each : value) to.emplace_back(words(each));
      } else {
        to = nb::cast<T>(value);
      }
    } catch (const nb::python_error&) {
      throw;
    } catch (const std::exception&) {
      raise(PyExc_TypeError, what_ + ": " + name + " cannot be " + words(nb::repr(value)));
    }
  }

  std::string what_;
  std::map<std::string, nb::object> left_;
};

Precision precision_from(nb::handle value) {
  const DType dtype = dtype_from(value);
  if (dtype == f32) return Precision::f32;
  if (dtype == bf16) return Precision::bf16;
  if (dtype == i8) return Precision::i8;
  raise(PyExc_ValueError,
        std::string("precision is float32, bfloat16 or int8, not ") + python_name(dtype));
}

Checkpoint checkpoint_from(nb::handle value) {
  const std::string name = words(value);
  if (name == "none") return Checkpoint::none;
  if (name == "sqrt") return Checkpoint::sqrt;
  raise(PyExc_ValueError, "checkpoint is 'none' or 'sqrt', not '" + name + "'");
}

template <class T>
std::optional<T> optional_from(nb::handle value) {
  return nb::cast<T>(value);
}

// (dtype, shape)
std::optional<TensorType> type_from(nb::handle value) {
  if (!PySequence_Check(value.ptr()) || nb::len(value) != 2 || nb::isinstance<nb::str>(value))
    raise(PyExc_TypeError,
          "target_type is a pair of dtype and shape, not " + words(nb::repr(value)));
  return TensorType{dtype_from(value[0]), shape_of(value[1])};
}

Loss loss_from(nb::handle given) {
  Loss loss;
  Fields fields(nb::cast<nb::dict>(given), "a loss");
  fields.word("kind", loss.kind, parse_loss).get("output", loss.output).get("target", loss.target);
  fields.get("weight", loss.weight).word("reduction", loss.reduction, parse_reduction);
  fields.get("beta", loss.beta).get("label_smoothing", loss.label_smoothing);
  fields.get<std::optional<TensorType>>("target_type", loss.target_type, type_from);
  fields.get<std::optional<int>>("class_dim", loss.class_dim, optional_from<int>);
  fields.get("ignore_index", loss.ignore_index).get("class_weights", loss.class_weights);
  fields.get("log_target", loss.log_target).end();
  return loss;
}

ParameterRule rule_from(nb::handle given) {
  ParameterRule rule;
  Fields fields(nb::cast<nb::dict>(given), "a rule");
  fields.get("pattern", rule.pattern);
  fields.get<std::optional<double>>("lr", rule.lr, optional_from<double>);
  fields.get<std::optional<double>>("weight_decay", rule.weight_decay, optional_from<double>);
  fields.get<std::optional<bool>>("frozen", rule.frozen, optional_from<bool>);
  fields.end();
  return rule;
}

Penalty penalty_from(nb::handle given) {
  Penalty penalty;
  Fields fields(nb::cast<nb::dict>(given), "a penalty");
  fields.get("pattern", penalty.pattern).get("l1", penalty.l1).get("l2", penalty.l2).end();
  return penalty;
}

Metric metric_from(nb::handle given) {
  Metric metric;
  Fields fields(nb::cast<nb::dict>(given), "a metric");
  fields.word("kind", metric.kind, parse_metric).get("output", metric.output);
  fields.get("target", metric.target).end();
  return metric;
}

Schedule schedule_from(nb::handle given) {
  Schedule s;
  Fields fields(nb::cast<nb::dict>(given), "a schedule");
  fields.word("kind", s.kind, parse_schedule).get("by_epoch", s.by_epoch).get("warmup", s.warmup);
  fields.get("total", s.total)
      .get("period", s.period)
      .get("gamma", s.gamma)
      .get("min_lr", s.min_lr);
  fields.get("start", s.start).get("end", s.end).get("rise", s.rise);
  fields.get("div_factor", s.div_factor).get("final_div_factor", s.final_div_factor);
  fields.get("patience", s.patience)
      .get("cooldown", s.cooldown)
      .get("threshold", s.threshold)
      .get("maximize", s.maximize)
      .end();
  return s;
}

template <class T>
std::vector<T> list_from(nb::handle list, T (*one)(nb::handle)) {
  std::vector<T> out;
  for (const nb::handle each : list) out.push_back(one(each));
  return out;
}

TrainOptions::Mode mode_from(nb::handle value) {
  const std::string name = words(value);
  if (name == "training") return TrainOptions::Mode::training;
  if (name == "as-traced" || name == "as_traced") return TrainOptions::Mode::as_traced;
  raise(PyExc_ValueError, "mode is 'training' or 'as-traced', not '" + name + "'");
}

}  // namespace

bool is_forked() { return forked.load(std::memory_order_relaxed); }

int64_t bytes_from(nb::handle object) {
  if (!nb::isinstance<nb::str>(object)) return whole(object);
  const std::string words = python::words(object);
  size_t used = 0;
  double number = -1;
  try {
    number = std::stod(words, &used);
  } catch (const std::exception&) {
  }
  std::string unit = words.substr(used);
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  if (!unit.empty() && (unit.back() == 'B' || unit.back() == 'b')) unit.pop_back();
  if (!unit.empty() && unit.back() == 'i') unit.pop_back();
  const double factor = unit.empty()                 ? 1
                        : unit == "K" || unit == "k" ? 1024.0
                        : unit == "M"                ? 1024.0 * 1024
                        : unit == "G"                ? 1024.0 * 1024 * 1024
                                                     : -1;
  if (!(number >= 0) || factor < 0 || number * factor > 9e18)
    raise(PyExc_ValueError,
          "'" + words + "' is no number of bytes, such as 4096, \"512M\" or \"2G\"");
  return static_cast<int64_t>(number * factor);
}

std::vector<std::pair<std::string, int64_t>> dims_from(const nb::dict& dims) {
  std::vector<std::pair<std::string, int64_t>> out;
  for (const auto& [name, size] : dims) out.emplace_back(words(name), whole(size));
  return out;
}

namespace {

std::vector<SizeRange> ranges_from(const nb::dict& ranges) {
  std::vector<SizeRange> out;
  for (const auto& [name, range] : ranges) {
    if (!nb::isinstance<nb::sequence>(range) || nb::len(range) != 2)
      raise(PyExc_ValueError, "the range of the size '" + words(name) +
                                  "' is not (lowest, highest), such as (1, 64)");
    out.push_back({words(name), whole(range[nb::int_(0)]), whole(range[nb::int_(1)])});
  }
  return out;
}

}  // namespace

SessionOptions session_options(const nb::dict& given) {
  SessionOptions o;
  Fields fields(given, "a session");
  fields.get<Device>("device", o.device,
                     [](nb::handle value) { return take(parse_device(words(value))); });
  fields.get("threads", o.threads).get<int64_t>("memory_limit", o.memory_limit, bytes_from);
  fields.get<Checkpoint>("checkpoint", o.checkpoint, checkpoint_from);
  fields.get("low_memory", o.low_memory).get<Precision>("precision", o.precision, precision_from);
  fields.get("autotune", o.autotune)
      .get<std::vector<std::byte>>("tuning", o.tuning, [](nb::handle value) {
        const nb::bytes bytes = nb::cast<nb::bytes>(value);
        const auto* begin = static_cast<const std::byte*>(bytes.data());
        return std::vector<std::byte>(begin, begin + bytes.size());
      });
  fields.get<std::vector<std::pair<std::string, int64_t>>>(
      "dims", o.dims, [](nb::handle value) { return dims_from(nb::cast<nb::dict>(value)); });
  fields.get<std::vector<SizeRange>>(
      "ranges", o.ranges, [](nb::handle value) { return ranges_from(nb::cast<nb::dict>(value)); });
  fields.get("disabled_passes", o.disabled_passes).get("kernels", o.kernels).get("seed", o.seed);
  fields.get("lazy_allocation", o.lazy_allocation).get("packed", o.packed);
  fields.get("first_run", o.first_run).get("gpu_name", o.gpu_name).get("profile", o.profile);
  fields.get("most_rounds", o.most_rounds).get("keep_all_values", o.keep_all_values).end();
  if (is_forked()) o.threads = 1;
  return o;
}

Optimizer optimizer_from(const nb::dict& given) {
  Optimizer o;
  nb::dict rest;
  for (const auto& [name, value] : given) rest[name] = value;
  if (rest.contains("kind")) {
    // The defaults of each kind, as in torch.optim.
    const Optimizer::Kind kind = take(parse_optimizer(words(nb::object(rest["kind"]))));
    o = kind == Optimizer::Kind::sgd     ? sgd()
        : kind == Optimizer::Kind::adam  ? adam()
        : kind == Optimizer::Kind::adamw ? adamw()
                                         : rmsprop();
  }
  Fields fields(rest, "an optimizer");
  fields.word("kind", o.kind, parse_optimizer).get("lr", o.lr).get("weight_decay", o.weight_decay);
  fields.get("momentum", o.momentum).get("dampening", o.dampening).get("nesterov", o.nesterov);
  fields.get("beta1", o.beta1).get("beta2", o.beta2).get("amsgrad", o.amsgrad);
  fields.get("alpha", o.alpha).get("centered", o.centered).get("eps", o.eps);
  fields.get("maximize", o.maximize).end();
  return o;
}

GenerateOptions generate_options(const nb::dict& given) {
  GenerateOptions o;
  SamplerOptions& s = o.sampler;
  Fields fields(given, "generate");
  const std::function<std::vector<int32_t>(nb::handle)> ids = ids_from;
  const std::function<float(nb::handle)> real = [](nb::handle value) {
    return static_cast<float>(nb::cast<double>(nb::float_(nb::borrow(value))));
  };
  fields.get("max_tokens", o.max_tokens).get("stop_ids", o.stop_ids, ids);
  fields.get("log_probabilities", o.log_probabilities).get("reuse_past", o.reuse_past);
  fields.get("temperature", s.temperature, real).get("top_k", s.top_k).get("top_p", s.top_p, real);
  fields.get("min_p", s.min_p, real).get("repetition_penalty", s.repetition_penalty, real);
  fields.get("seed", s.seed).get("num_return_sequences", o.num_return_sequences);
  fields.get("lookup", o.lookup).get("draft_tokens", o.draft_tokens);
  fields.get("num_beams", o.num_beams).get("length_penalty", o.length_penalty, real);
  const std::function<EarlyStopping(nb::handle)> early = [](nb::handle value) {
    if (nb::isinstance<nb::str>(value) && nb::cast<std::string>(value) == "never")
      return EarlyStopping::never;
    if (!nb::isinstance<nb::bool_>(value))
      raise(PyExc_ValueError, "early_stopping is True, False or 'never'");
    return nb::cast<bool>(value) ? EarlyStopping::yes : EarlyStopping::no;
  };
  fields.get("early_stopping", o.early_stopping, early).end();
  return o;
}

std::vector<int32_t> ids_from(nb::handle ids) {
  std::vector<int32_t> out;
  for (const nb::handle each : ids) {
    const int64_t id = whole(each);
    if (id < 0 || id > std::numeric_limits<int32_t>::max())
      raise(PyExc_ValueError, str_cat(id, " is not a token id, which is from 0 to 2147483647"));
    out.push_back(static_cast<int32_t>(id));
  }
  return out;
}

// An object with `size`, `begin(name, array)`, `wait()` and optionally `bucket_bytes`.
AllReduce all_reduce_from(nb::handle object) {
  AllReduce out;
  out.ranks = nb::cast<int>(object.attr("size"));
  if (nb::hasattr(object, "bucket_bytes"))
    out.bucket_bytes = whole(nb::object(object.attr("bucket_bytes")));
  out.begin = [call = shared_object(object.attr("begin"))](std::string_view name,
                                                           const Tensor& data) {
    return with_python([&]() -> Status {
      (*call)(nb::str(name.data(), name.size()), view_of(data, nb::none(), false));
      return {};
    });
  };
  out.wait = [call = shared_object(object.attr("wait"))] {
    return with_python([&]() -> Status {
      (*call)();
      return {};
    });
  };
  return out;
}

std::optional<QuantizeOptions> quantize_from(nb::handle given) {
  if (given.is_none()) return {};
  QuantizeOptions o;
  Fields fields(nb::cast<nb::dict>(given), "quantize");
  fields.get("bits", o.bits).get("group", o.group).get("least", o.least);
  fields.get<std::vector<std::string>>("keep", o.keep, [](nb::handle v) {
    return nb::isinstance<nb::str>(v) ? std::vector<std::string>{words(v)}
                                      : nb::cast<std::vector<std::string>>(v);
  });
  fields.end();
  return o;
}

TrainOptions train_options(const nb::dict& given) {
  TrainOptions o;
  Fields fields(given, "a trainer");
  fields.get<std::vector<Loss>>("losses", o.losses,
                                [](nb::handle v) { return list_from(v, loss_from); });
  fields.get<std::vector<Penalty>>("penalties", o.penalties,
                                   [](nb::handle v) { return list_from(v, penalty_from); });
  fields.get<std::vector<Metric>>("metrics", o.metrics,
                                  [](nb::handle v) { return list_from(v, metric_from); });
  fields.get<Optimizer>("optimizer", o.optimizer,
                        [](nb::handle v) { return optimizer_from(nb::cast<nb::dict>(v)); });
  fields.get<std::vector<ParameterRule>>("rules", o.rules,
                                         [](nb::handle v) { return list_from(v, rule_from); });
  fields.get<Schedule>("schedule", o.schedule, schedule_from);
  fields.get("clip_norm", o.clip_norm)
      .get("clip_value", o.clip_value)
      .get("accumulate", o.accumulate);
  fields.get<TrainOptions::Mode>("mode", o.mode, mode_from);
  fields.get<AllReduce>("all_reduce", o.all_reduce, all_reduce_from);
  fields.get<std::optional<QuantizeOptions>>("quantize", o.quantize, quantize_from);
  fields.get<DType>("compute", o.compute, dtype_from).get("resume", o.resume);
  fields.get<SessionOptions>("session", o.session,
                             [](nb::handle v) { return session_options(nb::cast<nb::dict>(v)); });
  fields.end();
  if (is_forked()) o.session.threads = 1;
  return o;
}

void bind_options(nb::module_&) {
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
}

}  // namespace hg::python
