// SPDX-License-Identifier: Apache-2.0
// Distinguishes names, files and types in --input, and checks that every input gets one tensor.
#include "tools/inputs.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "hg/dim.h"
#include "tools/npy_cast.h"
#include "tools/process.h"

namespace hg::tools {
namespace {

struct Argument {
  int input = -1;    // of the graph, or -1 when it has no name
  std::string what;  // the file or type
};

int find_input(const Graph& graph, std::string_view name) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    if (graph.value_info(graph.inputs()[i]).name == name) return static_cast<int>(i);
  }
  return -1;
}

// A '=' may belong to the file's name: it parts a name from a file unless such a file exists.
Outcome parse_argument(const Graph& graph, const std::string& text_given, Argument& out) {
  const size_t equals = text_given.find('=');
  out = {-1, text_given};
  if (equals == std::string::npos) return {};
  const std::string name = text_given.substr(0, equals);
  const int input = find_input(graph, name);
  if (input >= 0) {
    out = {input, text_given.substr(equals + 1)};
    return {};
  }
  std::error_code error;
  if (std::filesystem::exists(path_of(text_given), error)) return {};
  return mismatch("--input ", text_given, ": the model has no input '", name, "'; it takes ",
                  inputs_text(graph));
}

struct Type {
  DType dtype;
  Sizes shape;
};

// "f32[1,3,8]", or nothing when it does not look like a type.
std::optional<Type> parse_type(std::string_view word) {
  const size_t open = word.find('[');
  if (open == std::string_view::npos || word.back() != ']') return std::nullopt;
  Result<DType> dtype = dtype_named(word.substr(0, open));
  if (!dtype.ok()) return std::nullopt;
  Type type{*dtype, {}};
  std::string_view rest = word.substr(open + 1, word.size() - open - 2);
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string_view part = rest.substr(0, comma);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    int64_t size = 0;
    const char* end = part.data() + part.size();
    if (part.empty() || std::from_chars(part.data(), end, size).ptr != end || size < 0) {
      return std::nullopt;
    }
    type.shape.push_back(size);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (type.shape.overflowed()) return std::nullopt;
  return type;
}

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

 private:
  uint64_t state_;
};

template <class T>
void fill(const Tensor& tensor, Random& random) {
  T* data = tensor.as<T>();
  for (int64_t i = 0, n = tensor.count(); i < n; ++i) {
    if constexpr (std::is_integral_v<T>) {
      data[i] = static_cast<T>(random.bit());
    } else {
      data[i] = static_cast<T>(static_cast<float>(random.real()));
    }
  }
}

Result<Array> random_array(DType dtype, const Sizes& shape, uint64_t seed) {
  HG_TRY_ASSIGN(TensorData data, TensorData::allocate(dtype, shape));
  Random random(seed + 1);
  switch (dtype) {
    case DType::f32:
      fill<float>(data.tensor, random);
      break;
    case DType::f64:
      fill<double>(data.tensor, random);
      break;
    case DType::f16:
      fill<Half>(data.tensor, random);
      break;
    case DType::bf16:
      fill<BFloat16>(data.tensor, random);
      break;
    case DType::i64:
      fill<int64_t>(data.tensor, random);
      break;
    case DType::i32:
      fill<int32_t>(data.tensor, random);
      break;
    case DType::i16:
      fill<int16_t>(data.tensor, random);
      break;
    case DType::i8:
      fill<int8_t>(data.tensor, random);
      break;
    case DType::u8:
      fill<uint8_t>(data.tensor, random);
      break;
    case DType::bool_:
      fill<bool>(data.tensor, random);
      break;
    case DType::c64:
      fill<float>(view_as_real(data.tensor), random);
      break;
    case DType::c128:
      fill<double>(view_as_real(data.tensor), random);
      break;
  }
  return Array(std::move(data));
}

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

Outcome open_inputs(const Graph& graph, std::span<const std::string> arguments, bool types,
                    InputArrays& arrays) {
  const size_t count = graph.inputs().size();
  std::vector<std::string> chosen(count);
  std::vector<std::string> unnamed;
  for (const std::string& given : arguments) {
    Argument argument;
    if (Outcome parsed = parse_argument(graph, given, argument); !parsed.ok()) return parsed;
    if (argument.input < 0) {
      unnamed.push_back(argument.what);
      continue;
    }
    std::string& slot = chosen[argument.input];
    if (!slot.empty()) {
      return mismatch("--input ", given, ": this input has '", slot, "' already");
    }
    slot = argument.what;
  }
  size_t next = 0;
  for (std::string& slot : chosen) {
    if (slot.empty() && next < unnamed.size()) slot = unnamed[next++];
  }
  if (next < unnamed.size()) {
    return mismatch(arguments.size(), " inputs are given, but the model takes ", count, ": ",
                    inputs_text(graph));
  }
  arrays.clear();
  for (size_t i = 0; i < count; ++i) {
    const ValueInfo& info = graph.value_info(graph.inputs()[i]);
    if (chosen[i].empty()) {
      return mismatch("input '", info.name, "' (", info.type, ") is missing: add --input ",
                      info.name, "=FILE.npy");
    }
    const std::optional<Type> type = types ? parse_type(chosen[i]) : std::nullopt;
    Result<Array> array = type ? random_array(type->dtype, type->shape, i) : read_npy(chosen[i]);
    if (!array.ok()) return outcome(array.status());
    arrays.push_back(*std::move(array));
  }
  return {};
}

Outcome make_inputs(const Graph& graph, const SymbolSizes& dims, InputArrays& arrays) {
  Bindings bindings;
  for (const auto& [symbol, size] : dims) {
    if (Status bound = bindings.bind(symbol, size); !bound.ok()) return outcome(bound);
  }
  arrays.clear();
  for (ValueId id : graph.inputs()) {
    const ValueInfo& info = graph.value_info(id);
    Result<Sizes> shape = evaluate(info.type.shape, bindings);
    if (!shape.ok()) {
      return mismatch("input '", info.name, "' (", info.type,
                      ") has open sizes: add --input or --dim");
    }
    Result<Array> array = random_array(info.type.dtype, *shape, arrays.size());
    if (!array.ok()) return outcome(array.status());
    arrays.push_back(*std::move(array));
  }
  return {};
}

Outcome match_types(const Graph& graph, InputArrays& arrays, std::vector<std::string>* notes) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    const ValueInfo& info = graph.value_info(graph.inputs()[i]);
    const DType given = arrays[i].dtype();
    if (given == info.type.dtype) continue;
    std::optional<Array> as_taken = cast(arrays[i], info.type.dtype);
    if (!as_taken)
      return mismatch("input '", info.name, "' takes ", info.type, ", the file has ", given,
                      "; save it with numpy's astype",
                      given == u8 && is_float(info.type.dtype)
                          ? ", scaled as the model expects its images"
                          : "");
    arrays[i] = *std::move(as_taken);
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

Outcome write_outputs(const Session& session, const std::string& folder,
                      std::vector<std::string>& paths) {
  std::error_code error;
  std::filesystem::create_directories(path_of(folder), error);
  if (error) return usage("--output-dir ", folder, ": ", error.message());
  for (int i = 0; i < session.output_count(); ++i) {
    Result<Tensor> output = session.output(i);
    if (!output.ok()) return outcome(output.status());
    std::string name = file_name(session.output_name(i)), path;
    do {
      path = text_of(path_of(folder) / path_of(name + ".npy"));
      name.push_back('_');
    } while (std::find(paths.begin(), paths.end(), path) != paths.end());
    if (Status written = write_npy(path, *output); !written.ok()) return outcome(written);
    paths.push_back(path);
  }
  return {};
}

}  // namespace hg::tools
