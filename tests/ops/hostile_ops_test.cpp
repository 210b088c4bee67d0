// SPDX-License-Identifier: Apache-2.0
// Every op as a hostile file may contain it: sample rows with other shapes, dtypes and values of
// inputs, and other attributes. Each is rejected with a sentence, or runs with every kernel,
// without touching foreign memory (guarded by fences). Its results have the same bits whatever its
// memory held before, and equal the double loops of kernels/reference.
//   hostile_ops_test [--rounds=N] [--seconds=T] [--seed=S] [--op=NAME] [--verbose]
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>

#include "hg/hg.h"
#include "kernels/reference/reference.h"
#include "lib/graph/split_mix.h"
#include "tests/ops/sample_case.h"
#include "tests/support/elements.h"

namespace hg::test {
namespace {

constexpr int64_t kMostBytes = 16 << 20;
constexpr double kMostFlops = 1e7;
constexpr int64_t kMostElements = 4096;  // of one input
constexpr int64_t kMostResults = 1 << 20;
constexpr double kMostSeconds = 20;  // for one case, in the slowest build

// -- Memory with nothing around it --------------------------------------------------------------

// The byte that fills new memory.
unsigned char pattern = 0;

// Bytes between two pages that nobody may access. The bytes end at the second page, unless
// `aligned` asks for an alignment of 64.
class Fenced {
 public:
  static void* allocate(size_t bytes, bool aligned) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t inside = (bytes + page - 1) / page * page, all = inside + 2 * page;
    void* const base =
        ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    auto* const first = static_cast<std::byte*>(base) + page;
    ::mprotect(base, page, PROT_NONE);
    ::mprotect(first + inside, page, PROT_NONE);
    std::memset(first, pattern, inside);
    void* const memory = first + (inside - (aligned ? (bytes + 63) / 64 * 64 : bytes));
    mapped()[memory] = {base, all};
    return memory;
  }
  // Whether the bytes between the tensor and the fence are unchanged.
  static bool is_clean_behind(const Tensor& tensor) {
    const auto bytes = static_cast<size_t>(tensor.bytes());
    const auto* const end = tensor.as<unsigned char>();
    return std::all_of(end + bytes, end + (bytes + 63) / 64 * 64,
                       [](unsigned char byte) { return byte == pattern; });
  }
  static void free(void* memory) {
    const auto found = mapped().find(memory);
    ::munmap(found->second.first, found->second.second);
    mapped().erase(found);
  }

 private:
  static std::map<void*, std::pair<void*, size_t>>& mapped() {
    static std::map<void*, std::pair<void*, size_t>> all;
    return all;
  }
};

Allocator fenced_memory() {
  return {.allocate = [](void*, size_t bytes) { return Fenced::allocate(bytes, true); },
          .free = [](void*, void* memory, size_t) { Fenced::free(memory); }};
}
TensorData fenced_tensor(DType dtype, const Sizes& shape, bool aligned) {
  const auto bytes = static_cast<size_t>(shape.count() * size_of(dtype));
  TensorData data;
  data.owner = std::shared_ptr<void>(Fenced::allocate(bytes, aligned), Fenced::free);
  data.tensor = view(data.owner.get(), dtype, shape);
  return data;
}

// -- Samples that are changed -------------------------------------------------------------------

// The words of each string attribute in the samples, so that changes can reuse them.
std::map<std::string, std::vector<std::string>> known_words(const std::vector<Sample>& samples) {
  std::map<std::string, std::vector<std::string>> words;
  for (const Sample& sample : samples)
    for (const NamedAttr& attr : sample.attrs)
      if (const auto* word = std::get_if<std::string>(&attr.value.value))
        words[std::string(attr.name)].push_back(*word);
  return words;
}

class Hostility {
 public:
  Hostility(uint64_t seed, const std::map<std::string, std::vector<std::string>>& words)
      : state_(seed), words_(words) {}

  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(split_mix(state_) % n); }
  bool one_in(size_t n) { return below(n) == 0; }

  void change(Sample& sample) {
    const Op& op = *Registry::built_in().find(sample.op);
    for (size_t times = 1 + below(3); times > 0; --times) {
      if (!op.signature.attributes.empty() && (sample.inputs.empty() || one_in(2)))
        change_attr(sample, op.signature.attributes[below(op.signature.attributes.size())]);
      else if (!sample.inputs.empty())
        change_input(sample, sample.inputs[below(sample.inputs.size())]);
    }
  }
  // Whether results may be compared by their numbers, not only by their bits.
  bool is_tame() const { return is_tame_; }
  // Whether the double loops support these attributes.
  bool fits_loops() const { return fits_loops_; }

 private:
  int64_t size_near(int64_t size) {
    const int64_t near[] = {0, 1, size - 1, size + 1, 2 * size, size / 2, 7};
    return std::max<int64_t>(near[below(std::size(near))], 0);
  }

  void change_input(Sample& sample, SampleInput& input) {
    const SampleInput before = input;
    switch (below(10)) {
      case 0:
      case 1:
      case 2:
        if (!input.shape.empty()) {
          int64_t& size = input.shape[static_cast<int>(below(input.shape.size()))];
          size = input.shape.count() == 0 && size > 0 && one_in(2) ? int64_t{1} << 40
                                                                   : size_near(size);
        }
        break;
      case 3:
        if (input.shape.rank() < kMaxRank)
          input.shape.insert(static_cast<int>(below(input.shape.size() + 1)), size_near(2));
        break;
      case 4:
        if (!input.shape.empty()) input.shape.erase(static_cast<int>(below(input.shape.size())));
        break;
      case 5:
        input.shape = sample.inputs[below(sample.inputs.size())].shape;
        break;
      case 6:
        input.dtype = static_cast<DType>(below(static_cast<size_t>(DType::bool_) + 1));
        break;
      case 7:
        input.given = !input.given;
        if (input.given && one_in(2)) input.shape = sample.inputs[0].shape;
        break;
      default:
        change_values(input);
    }
    if (input.shape.count() > kMostElements) input = before;
    if (sample.op == "searchsorted") is_tame_ = false;  // lines may no longer be sorted
    // Losses do not broadcast in the loops, vectors of equal singular values and eigenvalues and of
    // dependent columns are arbitrary, and products of bytes wrap around.
    if (sample.op.ends_with("_loss") || sample.op == "svd" || sample.op == "eig" ||
        sample.op == "qr" || sample.op == "expression")
      fits_loops_ = false;
    fit_values(input);
  }

  // As many values as elements: the given ones, repeated.
  static void fit_values(SampleInput& input) {
    if (input.values.empty()) return;
    const std::vector<double> old = std::move(input.values);
    input.values.clear();
    for (int64_t i = 0; i < input.shape.count(); ++i)
      input.values.push_back(old[static_cast<size_t>(i) % old.size()]);
  }

  void change_values(SampleInput& input) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    constexpr double kFloats[] = {0,     -1,   1e30,  -1e30, 65504, 3e9,   -3e9,
                                  1e-30, kInf, -kInf, NAN,   1e300, 9.3e18};
    constexpr double kIntegers[] = {
        0, -1, 1, 2, 127, -128, 32767, 2147483647, -0x1p31, 0x1p31, 9.1e18, -9.3e18, 4294967296.0};
    is_tame_ = false;
    const auto any = [&] {
      return is_float(input.dtype) ? kFloats[below(std::size(kFloats))]
                                   : kIntegers[below(std::size(kIntegers))];
    };
    if (one_in(2)) {
      input.values.assign(1, any());
      fit_values(input);
      return;
    }
    if (input.values.empty())
      for (int64_t i = 0; i < input.shape.count(); ++i)
        input.values.push_back(std::floor(input.low) + static_cast<double>(below(3)));
    if (!input.values.empty()) input.values[below(input.values.size())] = any();
  }

  Dim hostile(const Dim& old) {
    constexpr int64_t kValues[] = {
        0,         1,         -1,         2,          3,          INT32_MAX,        INT32_MIN,
        INT64_MAX, INT64_MIN, 4294967296, 4294967297, 1073741825, int64_t{1} << 62, 100,
        -2,        7};
    if (one_in(12)) {
      fits_loops_ = false;
      return Dim("x0_0");
    }
    if (one_in(3) && old.is_constant() && std::abs(old.constant()) < 1000)
      return old + static_cast<int64_t>(below(5)) - 2;
    const int64_t value = kValues[below(std::size(kValues))];
    fits_loops_ = fits_loops_ && value > -1000 && value < INT32_MAX / 2;
    return value;
  }

  void change_attr(Sample& sample, const Signature::Attribute& attribute) {
    constexpr double kReals[] = {0, 1, -1, 0.5, 1e30, -1e30, 1e-30, NAN, HUGE_VAL, -HUGE_VAL, 3};
    auto found = std::find_if(sample.attrs.begin(), sample.attrs.end(),
                              [&](const NamedAttr& attr) { return attr.name == attribute.name; });
    if (attribute.name == "blank") is_tame_ = false;           // a target may then be blank
    if (attribute.name == "stream") fits_loops_ = false;       // only 32 bits of it are used
    if (attribute.name == "sampling_ratio") is_tame_ = false;  // sums may be long
    if (found != sample.attrs.end() && one_in(8)) {
      sample.attrs.erase(found);
      return;
    }
    if (found == sample.attrs.end()) {
      sample.attrs.push_back({attribute.name, attribute.fallback});
      found = sample.attrs.end() - 1;
    }
    auto& value = found->value.value;
    const auto filled = [&]<class T>(const T& fallback) -> T& {
      if (!std::holds_alternative<T>(value)) value = fallback;
      return std::get<T>(value);
    };
    switch (attribute.type) {
      case AttrType::boolean:
        value = one_in(2);
        break;
      case AttrType::integer:
        value = hostile(filled(Dim(1)));
        break;
      case AttrType::real:
        is_tame_ = false;
        value = kReals[below(std::size(kReals))];
        break;
      case AttrType::string:
        change_word(attribute.name, filled(std::string()));
        break;
      case AttrType::dtype:
        value = static_cast<DType>(below(kDTypeCount));
        break;
      case AttrType::integers:
        change_list(filled(std::vector<Dim>()), [&](const Dim& old) { return hostile(old); });
        break;
      case AttrType::reals:
        is_tame_ = false;
        change_list(filled(std::vector<double>()),
                    [&](double) { return kReals[below(std::size(kReals))]; });
        break;
      case AttrType::strings:
        break;  // no op has such attributes
    }
  }

  template <class T, class Change>
  void change_list(std::vector<T>& list, const Change& changed) {
    if (list.empty() || one_in(6))
      list.push_back(changed(T(1)));
    else if (one_in(6))
      list.pop_back();
    else
      for (T& one : one_in(4) ? std::span(list) : std::span(&list[below(list.size())], 1))
        one = changed(one);
  }

  // Another known word of the attribute, or a changed character of a program.
  void change_word(const std::string& name, std::string& word) {
    const auto known = words_.find(name);
    if (known != words_.end() && one_in(2))
      word = known->second[below(known->second.size())];
    else if (word.empty())
      word = "x";
    else if (one_in(3))
      word.erase(below(word.size()), 1 + below(4));
    else
      word[below(word.size())] = "0123456789()+-*/,.;:%= \"abcxyz[]<>"[below(34)];
    is_tame_ = false;  // a formula may compute anything
  }

  uint64_t state_;
  const std::map<std::string, std::vector<std::string>>& words_;
  bool is_tame_ = true, fits_loops_ = true;
};

// -- One case -----------------------------------------------------------------------------------

enum class End { refused, expensive, ran };
struct Outcome {
  End end = End::refused;
  Status status;  // why the case was rejected
  std::vector<Answer> answers;
};

// Whether the message explains the error. Hostile input must not be reported as an internal error.
bool says_why(const Status& status) {
  return !status.message().empty() && status.code() != Code::internal;
}

struct Failure {
  std::string what;
};

Outcome refused(const Status& status) {
  if (!says_why(status)) throw Failure{str_cat("refused as: ", status.message())};
  return {End::refused, status, {}};
}

std::vector<char> bytes_of(const Tensor& y) {
  std::vector<char> bytes(static_cast<size_t>(y.bytes()));
  void* const to = bytes.data();
  if (!bytes.empty()) copy_elements(y, view(to, y.dtype, y.shape));
  return bytes;
}

// With `bound`, outputs of these shapes have their own memory.
Outcome run_case(const Case& c, const std::string& kernel, const std::vector<Answer>* bound) {
  Result<Model> model = Model::from_graph(c.graph);
  if (!model.ok()) return refused(model.status());
  SessionOptions options{.threads = 1, .allocator = fenced_memory(), .memory_limit = kMostBytes};
  options.disabled_passes = {"*"};
  if (!kernel.empty()) options.kernels = {kernel};
  Result<Session> session = Session::create(*model, options);
  if (!session.ok()) return refused(session.status());
  std::vector<TensorData> memory;
  for (const Input& input : c.inputs) {
    for (int i = 0; i < session->input_count(); ++i) {
      if (session->input_name(i) != input.name) continue;
      const Tensor& from = input.data.tensor;
      memory.push_back(fenced_tensor(from.dtype, from.shape, false));
      copy_elements(from, memory.back().tensor);
      if (const Status set = session->set_input(i, memory.back().tensor); !set.ok())
        return refused(set);
    }
  }
  if (const Status planned = session->plan(); !planned.ok()) return refused(planned);
  if (session->flops() > kMostFlops) return {End::expensive, {}, {}};
  for (size_t k = 0; bound != nullptr && k < bound->size(); ++k) {
    memory.push_back(fenced_tensor((*bound)[k].dtype, (*bound)[k].shape, true));
    if (const Status set = session->set_output(static_cast<int>(k), memory.back().tensor);
        !set.ok())
      throw Failure{str_cat("the shape of an output changed: ", set.message())};
  }
  if (const Status ran = session->run(); !ran.ok()) return refused(ran);
  if (session->flops() > kMostFlops) return {End::expensive, {}, {}};
  if (!kernel.empty() && session->report().find(str_cat(kernel.substr(0, kernel.find('=')), " by ",
                                                        kernel.substr(kernel.find('=') + 1),
                                                        "\n")) == std::string::npos)
    return {End::expensive, {}, {}};  // the op was expanded
  for (size_t k = 0; bound != nullptr && k < bound->size(); ++k)
    if (!Fenced::is_clean_behind(memory[memory.size() - 1 - k].tensor))
      throw Failure{"what lies behind an output was written to"};
  Outcome outcome{End::ran, {}, {}};
  for (int k = 0; k < session->output_count(); ++k) {
    const Result<Tensor> y = session->output(k);
    if (y.ok() && y->count() > kMostResults) return {End::expensive, {}, {}};
    if (!y.ok()) throw Failure{str_cat("no output: ", y.status().message())};
    outcome.answers.push_back({y->dtype, y->shape, read_all(*y), bytes_of(*y)});
  }
  return outcome;
}

void expect_same_bits(const Outcome& a, const Outcome& b, const std::string& how) {
  if (a.end != b.end)
    throw Failure{str_cat(how, ": ", a.end == End::ran ? "ran" : a.status.message(),
                          " before, and now ", b.end == End::ran ? "ran" : b.status.message())};
  for (size_t k = 0; k < a.answers.size(); ++k)
    if (a.answers[k].bytes != b.answers[k].bytes)
      throw Failure{str_cat(how, " gives other bits of output ", static_cast<int64_t>(k))};
}

void expect_near(const Sample& sample, const Answer& got, const std::vector<double>& expected,
                 const std::string& how) {
  if (got.values.size() != expected.size())
    throw Failure{str_cat(how, " gives ", int64_t(got.values.size()), " elements, not ",
                          int64_t(expected.size()))};
  if (is_complex(got.dtype)) return;  // tests read no complex elements
  const double tolerance = tolerance_of(sample, got.dtype);
  for (size_t i = 0; i < expected.size(); ++i) {
    const double x = got.values[i], y = expected[i];
    if (x == y || (std::isnan(x) && std::isnan(y)) || !(std::abs(y) < 0x1p53)) continue;
    if (!(std::abs(x - y) <= 4 * tolerance * (1 + std::abs(y))))
      throw Failure{str_cat(how, ": element ", static_cast<int64_t>(i), " is ", x, ", not ", y)};
  }
}

struct Counts {
  int64_t refused = 0, expensive = 0, ran = 0, compared = 0;
};

void check_case(const Sample& sample, DType floats, bool symbolic, const Hostility& hostility,
                Counts& counts) {
  const bool is_tame = hostility.is_tame();
  Result<std::unique_ptr<Case>> built =
      build(sample, floats, symbolic ? Wiring::symbolic : Wiring::plain);
  if (!built.ok()) {
    (void)refused(built.status());
    ++counts.refused;
    return;
  }
  const Case& c = **built;
  const Op& op = *Registry::built_in().find(sample.op);
  pattern = 0;
  const Outcome first = run_case(c, "", nullptr);
  ++(first.end == End::refused ? counts.refused
     : first.end == End::ran   ? counts.ran
                               : counts.expensive);
  if (first.end == End::expensive) return;
  pattern = 0xff;
  if (!(op.def.traits & kRandom))
    expect_same_bits(first, run_case(c, "", first.end == End::ran ? &first.answers : nullptr),
                     "memory of ones");
  for (const KernelDef* kernel : Registry::built_in().kernels(sample.op, Device::cpu)) {
    const std::string name = str_cat(sample.op, "=", kernel->name);
    const Outcome other = run_case(c, name, nullptr);
    if (other.end == End::expensive || first.end != End::ran) continue;
    if (other.end == End::refused) {
      if (other.status.code() != Code::unsupported && is_tame)
        throw Failure{str_cat(name, " refuses: ", other.status.message())};
      continue;
    }
    if (!is_tame || (op.def.traits & kRandom)) continue;
    for (size_t k = 0; k < first.answers.size(); ++k)
      expect_near(sample, other.answers[k], first.answers[k].values, name);
  }
  if (first.end != End::ran || !is_tame || !hostility.fits_loops()) return;
  const bool is_empty = std::all_of(first.answers.begin(), first.answers.end(),
                                    [](const Answer& answer) { return answer.values.empty(); });
  if (is_empty || reference::find(sample.op) == nullptr) return;
  const std::vector<std::vector<double>> expected = expected_of(c, first.answers);
  for (size_t k = 0; k < expected.size(); ++k)
    expect_near(sample, first.answers[k], expected[k], "the double loops");
  ++counts.compared;
}

std::string text_of(const Sample& sample, DType floats, bool symbolic) {
  std::string text(sample.op);
  for (const SampleInput& input : sample.inputs) {
    text += str_cat(" ", input.given ? str_cat(input.dtype, input.shape) : std::string("none"));
    if (input.constant) text += "=";
    for (size_t i = 0; i < std::min<size_t>(input.values.size(), 8); ++i)
      text += str_cat(i == 0 ? "{" : ",", input.values[i]);
    if (!input.values.empty()) text += input.values.size() > 8 ? ",...}" : "}";
  }
  for (const NamedAttr& attr : sample.attrs) text += str_cat(" ", attr.name, "=", attr.value);
  return text + str_cat(" of ", floats, symbolic ? ", sizes are symbols" : "");
}

// Printed if the program ends in the middle of a case.
char present_case[4096];
extern "C" void tell_case(int signal) {
  std::fputs(present_case, stderr);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

struct Options {
  uint64_t rounds = 3000, seconds = 0, seed = 1;
  std::string op;
  bool verbose = false;
};

int play(const Options& options) {
  std::vector<Sample> samples = all_samples();
  const auto words = known_words(samples);
  std::map<std::string_view, std::vector<const Sample*>> rows;
  for (const Sample& sample : samples) {
    const bool is_small =
        std::all_of(sample.inputs.begin(), sample.inputs.end(),
                    [](const SampleInput& input) { return input.shape.count() <= kMostElements; });
    const Op* const op = Registry::built_in().find(sample.op);
    if (is_small && (options.op.empty() || options.op == sample.op) && !(op->def.traits & kControl))
      rows[sample.op].push_back(&sample);
  }
  std::vector<std::string_view> ops;
  for (const auto& [op, all] : rows) ops.push_back(op);
  if (ops.empty()) return std::fputs("there is no such op\n", stderr), 1;

  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  Counts counts;
  int failures = 0;
  for (uint64_t round = 0;
       options.seconds > 0 ? seconds_since(begin) < static_cast<double>(options.seconds)
                           : round < options.rounds;
       ++round) {
    const uint64_t seed = options.seed + round;
    Hostility hostility(seed * kSplitMixStep, words);
    const auto& of_op = rows[ops[hostility.below(ops.size())]];
    Sample sample = *of_op[hostility.below(of_op.size())];
    const DType floats =
        sample.has_floats() ? sample.floats[hostility.below(sample.floats.size())] : f32;
    const bool symbolic = hostility.one_in(2);
    hostility.change(sample);
    const std::string text =
        str_cat("hostile_ops_test --rounds=1 --seed=", static_cast<int64_t>(seed),
                options.op.empty() ? "" : str_cat(" --op=", options.op), "\n  ",
                text_of(sample, floats, symbolic), "\n");
    std::snprintf(present_case, sizeof present_case, "%s", text.c_str());
    if (options.verbose) std::fputs(present_case, stderr);
    const Clock::time_point start = Clock::now();
    try {
      check_case(sample, floats, symbolic, hostility, counts);
      if (seconds_since(start) > kMostSeconds) throw Failure{"took too long"};
    } catch (const Failure& failure) {
      std::fprintf(stderr, "%s\n  repeat with: %s", failure.what.c_str(), present_case);
      if (++failures == 20) break;
    }
  }
  std::printf("%lld refused, %lld ran, %lld of them as the double loops, %lld left out\n",
              static_cast<long long>(counts.refused), static_cast<long long>(counts.ran),
              static_cast<long long>(counts.compared), static_cast<long long>(counts.expensive));
  return failures > 0 || counts.ran == 0;
}

}  // namespace
}  // namespace hg::test

int main(int argc, char** argv) {
  hg::test::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const size_t equals = std::min(argument.find('='), argument.size() - 1);
    const std::string name(argument.substr(0, equals)), value(argument.substr(equals + 1));
    if (name == "--rounds") options.rounds = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "--seconds") options.seconds = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "--seed") options.seed = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "--op") options.op = value;
    if (argument == "--verbose") options.verbose = true;
  }
  for (const int signal : {SIGSEGV, SIGFPE, SIGABRT}) std::signal(signal, hg::test::tell_case);
  return hg::test::play(options);
}
