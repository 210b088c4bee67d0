// SPDX-License-Identifier: Apache-2.0
// Distinguishes names, files and types in --input, and checks that every input gets exactly one
// tensor.
#include "tools/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "hg/array.h"
#include "hg/create.h"
#include "hg/dim.h"
#include "lib/graph/element.h"
#include "tools/command_line/input_text.h"
#include "tools/process.h"

namespace hg::tools {
namespace {

// A multiplicative congruential generator; Steele and Vigna 2021, table 4.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t next() {
    state_ *= 0xf1357aea2e62a9c5u;
    return state_ >> 32;
  }
  double real() { return static_cast<double>(next()) / 2147483648.0 - 1; }  // [-1, 1)
  int bit() { return static_cast<int>(next() >> 31); }
  double unit() {  // [0, 1), with the precision of f64
    const uint64_t high = next(), low = next();
    return static_cast<double>((high << 21) ^ (low >> 11)) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

// The integers that a dtype holds; f64 holds them exactly up to 2^53.
std::pair<double, double> limits(DType dtype) {
  if (dtype == boolean) return {0, 1};
  if (dtype == u8) return {0, 255};
  const int bits = dtype == i8 ? 7 : dtype == i16 ? 15 : dtype == i32 ? 31 : 53;
  return {-std::ldexp(1, bits), std::ldexp(1, bits) - 1};
}

Status fill_range(const Tensor& tensor, const std::pair<double, double>& range, Random& random) {
  auto [low, high] = range;
  const bool whole = !is_float(tensor.dtype);
  if (whole) {
    low = std::ceil(low), high = std::floor(high);
    const auto [least, most] = limits(tensor.dtype);
    HG_CHECK(low <= high && low >= least && high <= most, "no ", tensor.dtype, " is in the range ",
             range.first, "..", range.second);
  }
  for (int64_t i = 0, n = tensor.count(); i < n; ++i) {
    const double part = random.unit();
    set_element(tensor, i,
                whole ? low + std::floor(part * (high - low + 1)) : low + part * (high - low));
  }
  return {};
}

// Equal seeds give equal numbers on every machine. Without a range: floats in [-1, 1); integers and
// booleans 0 or 1. Fails if the dtype cannot hold
// the whole range.
Result<Array> random_array(DType dtype, const Sizes& shape, const Range& range, uint64_t seed) {
  HG_TRY_ASSIGN(TensorData data, TensorData::allocate(dtype, shape));
  Random random(seed + 1);
  const Tensor parts = is_complex(dtype) ? view_as_real(data.tensor) : data.tensor;
  if (range) {
    HG_TRY(fill_range(parts, *range, random));
  } else {
    const bool whole = !is_float(parts.dtype);
    for (int64_t i = 0, n = parts.count(); i < n; ++i)
      set_element(parts, i, whole ? random.bit() : static_cast<float>(random.real()));
  }
  return Array(std::move(data));
}

int find_input(const Graph& graph, std::string_view name) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    if (graph.value_info(graph.inputs()[i]).name == name) return static_cast<int>(i);
  }
  return -1;
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path_of(path), error);
}

// Converts the numbers of a file to a type that the model accepts, if only precision is lost:
// integers to i64, f64 (numpy's default) to f32, and both to f16 and bf16. Otherwise nullopt.
std::optional<Array> as_taken(const Array& array, DType type) {
  const bool is_wide = array.dtype() == f32 || array.dtype() == f64;
  const bool loses_digits_alone = type == f32 ? array.dtype() == f64
                                  : type == f16 || type == bf16
                                      ? is_wide
                                      : type == i64 && is_integer(array.dtype());
  if (!loses_digits_alone) return std::nullopt;
  Result<Array> made = hg::cast(array, type);
  if (!made.ok()) return std::nullopt;
  return *std::move(made);
}

// One --input.
struct Argument {
  int input = -1;                 // index of the input; -1: the next one that no name selects
  std::string what;               // a file, or the text of random numbers
  std::optional<InputText> type;  // of random numbers
  Range range;                    // of random numbers with the input's own type
};

bool is_range(std::string_view text) {
  return text.find("..") != std::string_view::npos &&
         text.find_first_not_of("0123456789.+-eE ") == std::string_view::npos;
}

class ArgumentReader {
 public:
  ArgumentReader(const Graph& graph, bool takes_types) : graph_(graph), takes_types_(takes_types) {}

  // A '=' may be part of a file name. It separates a name from a file unless such a file exists.
  Outcome read(const std::string& given, Argument& out) const {
    out = {-1, given, {}, {}};
    const size_t equals = given.find('=');
    const std::string name = given.substr(0, equals);
    if (equals != std::string::npos) out.input = find_input(graph_, name);
    if (out.input >= 0) out.what = given.substr(equals + 1);
    if (exists(out.what)) return {};
    if (takes_types_ && out.input >= 0 && is_range(out.what))
      return parse_range(out.what, given, out.range);
    if (takes_types_ && is_type(out.what)) return read_type(given, out);
    if (equals != std::string::npos && out.input < 0) return unknown(given, name);
    return {};
  }

 private:
  static bool is_type(const std::string& text) {
    return text.find('[') != std::string::npos && !text.ends_with(".npy");
  }

  Outcome read_type(const std::string& given, Argument& out) const {
    out.type.emplace();
    if (Outcome o = parse_input_text(out.what, *out.type); !o.ok()) return o;
    const std::string& name = out.type->name;
    if (!out.type->new_name.empty()) return unknown(given, out.type->new_name);
    if (!name.empty() && out.input >= 0)
      return usage("--input ", given, " names two inputs, '",
                   graph_.value_info(graph_.inputs()[out.input]).name, "' and '", name, "'");
    if (name.empty()) return {};
    out.input = find_input(graph_, name);
    return out.input >= 0 ? Outcome() : unknown(given, name);
  }

  Outcome unknown(const std::string& given, const std::string& name) const {
    return mismatch("--input ", given, ": the model has no input '", name, "'; it takes ",
                    inputs_text(graph_));
  }

  const Graph& graph_;
  bool takes_types_;
};

// Generates the random numbers of inputs. Files and given types determine open sizes.
class RandomMaker {
 public:
  RandomMaker(const Graph& graph, const RandomInputs& random) : graph_(graph), random_(random) {}

  Outcome bind_dims() {
    for (const auto& [symbol, size] : random_.dims)
      if (Status bound = sizes_.bind(symbol, size); !bound.ok()) return outcome(bound);
    return {};
  }

  void learn(size_t input, const Sizes& shape) {
    const Shape& open = type_of(input).shape;
    for (size_t d = 0; d < open.size() && open.size() == static_cast<size_t>(shape.rank()); ++d)
      if (const std::string symbol(open[d].symbol()); !symbol.empty() && !sizes_.find(symbol))
        (void)sizes_.bind(symbol, shape[static_cast<int>(d)]);
  }

  // Null `type`: the type of the input.
  Outcome make(size_t input, const TensorType* type, const Range& range, Array& array) const {
    const ValueInfo& info = graph_.value_info(graph_.inputs()[input]);
    const TensorType& wanted = type != nullptr ? *type : info.type;
    const Result<Sizes> shape = evaluate(wanted.shape, sizes_);
    if (!shape.ok())
      return mismatch("input '", info.name, "' (", wanted, ") has open sizes: ",
                      random_.fills_missing ? "add --input or --dim"
                                            : "give its type, as in --input 'x:f32[2,3]=0..1'");
    Result<Array> made =
        random_array(wanted.dtype, *shape, range, random_.seed * 1000003 + uint64_t{input});
    if (!made.ok())
      return usage("input '", info.name, "' (", wanted, "): ", made.status().message());
    array = *std::move(made);
    return {};
  }

 private:
  const TensorType& type_of(size_t input) const {
    return graph_.value_info(graph_.inputs()[input]).type;
  }

  const Graph& graph_;
  const RandomInputs& random_;
  Bindings sizes_;
};

std::string file_name(std::string_view name) {
  std::string out(name);
  for (size_t i = 0; i < out.size(); ++i) {
    const char c = out[i];
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || (c == '.' && i > 0);
    if (!plain) out[i] = '_';
  }
  return out;
}

}  // namespace

std::string inputs_text(const Graph& graph) {
  std::string out;
  for (ValueId id : graph.inputs()) {
    const ValueInfo& info = graph.value_info(id);
    out += str_cat(out.empty() ? "" : ", ", info.name, ": ", info.type);
  }
  return out.empty() ? "nothing" : out;
}

Outcome open_inputs(const Graph& graph, std::span<const std::string> arguments,
                    const RandomInputs* random, InputArrays& arrays) {
  const size_t count = graph.inputs().size();
  const ArgumentReader reader(graph, random != nullptr);
  std::vector<Argument> chosen(count), unnamed;
  for (const std::string& given : arguments) {
    Argument argument;
    if (Outcome read = reader.read(given, argument); !read.ok()) return read;
    if (argument.input < 0) {
      unnamed.push_back(std::move(argument));
      continue;
    }
    Argument& slot = chosen[static_cast<size_t>(argument.input)];
    if (!slot.what.empty())
      return mismatch("--input ", given, ": this input has '", slot.what, "' already");
    slot = std::move(argument);
  }
  size_t next = 0;
  for (Argument& slot : chosen)
    if (slot.what.empty() && next < unnamed.size()) slot = std::move(unnamed[next++]);
  if (next < unnamed.size())
    return mismatch(arguments.size(), " inputs are given, but the model takes ", count, ": ",
                    inputs_text(graph));

  const RandomInputs none;
  RandomMaker maker(graph, random != nullptr ? *random : none);
  if (Outcome bound = maker.bind_dims(); !bound.ok()) return bound;
  arrays.assign(count, Array());
  const auto make = [&](size_t i, const Argument& argument) {
    const TensorType* const type = argument.type ? &argument.type->type : nullptr;
    return maker.make(i, type, argument.type ? argument.type->range : argument.range, arrays[i]);
  };
  for (size_t i = 0; i < count; ++i) {
    const Argument& argument = chosen[i];
    if (argument.what.empty() || argument.range) continue;
    if (argument.type) {
      if (Outcome made = make(i, argument); !made.ok()) return made;
    } else {
      Result<Array> array = read_npy(argument.what);
      if (!array.ok()) return outcome(array.status());
      arrays[i] = *std::move(array);
    }
    maker.learn(i, arrays[i].shape());
  }
  for (size_t i = 0; i < count; ++i) {
    const ValueInfo& info = graph.value_info(graph.inputs()[i]);
    const Argument& argument = chosen[i];
    if (argument.what.empty() && (random == nullptr || !random->fills_missing))
      return mismatch("input '", info.name, "' (", info.type, ") is missing: add --input ",
                      info.name, "=FILE.npy");
    if (!argument.what.empty() && !argument.range) continue;
    if (Outcome made = make(i, argument); !made.ok()) return made;
  }
  return {};
}

Outcome match_types(const Graph& graph, InputArrays& arrays, std::vector<std::string>* notes) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    const ValueInfo& info = graph.value_info(graph.inputs()[i]);
    const DType given = arrays[i].dtype();
    if (given == info.type.dtype) continue;
    std::optional<Array> taken = as_taken(arrays[i], info.type.dtype);
    if (!taken)
      return mismatch(
          "input '", info.name, "' takes ", info.type, ", the file has ", given,
          info.type.dtype == bf16 ? "; save it as float32, or with astype(ml_dtypes.bfloat16)"
                                  : "; save it with numpy's astype",
          given == u8 && is_float(info.type.dtype) ? ", scaled as the model expects its images"
                                                   : "");
    arrays[i] = *std::move(taken);
    std::string note =
        str_cat("input '", info.name, "': ", given, " is taken as ", info.type.dtype);
    if (notes != nullptr && std::find(notes->begin(), notes->end(), note) == notes->end())
      notes->push_back(std::move(note));
  }
  return {};
}

Outcome set_inputs(Session& session, const InputArrays& arrays) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    Status set = session.set_input(static_cast<int>(i), arrays[i]);
    if (!set.ok()) return outcome(set);
  }
  return {};
}

std::vector<std::string> output_paths(const Session& session, const std::string& folder) {
  std::vector<std::string> paths;
  for (int i = 0; i < session.output_count(); ++i) {
    std::string name = file_name(session.output_name(i)), path;
    do {
      path = text_of(path_of(folder) / path_of(name + ".npy"));
      name.push_back('_');
    } while (std::find(paths.begin(), paths.end(), path) != paths.end());
    paths.push_back(path);
  }
  return paths;
}

Outcome write_outputs(const Session& session, const std::string& folder, bool as_f32,
                      std::vector<std::string>& paths) {
  const std::vector<std::string> files = output_paths(session, folder);
  std::error_code error;
  std::filesystem::create_directories(path_of(folder), error);
  if (error) return usage("--output-dir ", folder, ": ", error.message());
  for (int i = 0; i < session.output_count(); ++i) {
    Result<Tensor> output = session.output(i);
    if (!output.ok()) return outcome(output.status());
    Array written = Array::wrap(*output);
    if (as_f32 && (output->dtype == f16 || output->dtype == bf16)) {
      Result<Array> wide = hg::cast(written, f32);
      if (!wide.ok()) return outcome(wide.status());
      written = *std::move(wide);
    }
    const std::string& path = files[static_cast<size_t>(i)];
    if (Status saved = write_npy(path, written.tensor()); !saved.ok()) return outcome(saved);
    paths.push_back(path);
  }
  return {};
}

}  // namespace hg::tools
