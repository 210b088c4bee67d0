// SPDX-License-Identifier: Apache-2.0
// Dims, orders of matrix norms and gradients, and quarter turns that data decides. Nodes of the
// graph have them as constants, so the op becomes one branch per choice, of which the run takes
// one.
#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "converter/containers/containers.h"
#include "converter/interpret/attempt.h"
#include "converter/interpret/interpreter.h"

namespace hg::convert {
namespace {

constexpr std::array<std::string_view, 11> kDimArguments = {
    "dim",   "dim0",  "dim1",      "dim2",   "dims",       "axis",
    "axis0", "axis1", "dimension", "source", "destination"};

bool is_data_number(const Item& item) {
  const auto* tensor = std::get_if<TensorRef>(&item.value);
  return tensor && (*tensor)->is_number() && !(*tensor)->is_poisoned() && !scalar_of(item);
}

// How many dims the op chooses from: those of the tensor with the most, and one more where the op
// adds one. Numbers below 0 stay so, since an op may count them from the rank of all its tensors.
int count_dims(const ScriptNode& node, Environment& environment) {
  int most = -1;
  const auto note = [&](const Item& item) {
    const auto* tensor = std::get_if<TensorRef>(&item.value);
    if (tensor == nullptr || (*tensor)->is_number()) return;
    const int pair = (*tensor)->is_complex() ? 1 : 0;
    most = std::max(most, environment.memory().type(*tensor).rank() - pair);
  };
  for (const ScriptId id : node.inputs) {
    const Item& item = environment.get(id);
    note(item);
    if (const Items* parts = elements_of(item))
      for (const Item& part : *parts) note(part);
  }
  if (most < 0) return 0;
  const bool adds = node.kind.starts_with("aten::unsqueeze") || node.kind == "aten::stack" ||
                    node.kind.starts_with("aten::diag_embed");
  return adds ? most + 1 : std::max(most, 1);
}

// Constant dims of which the one that data decides must differ.
std::vector<int64_t> other_dims(const ScriptNode& node, Environment& environment, size_t argument,
                                int element) {
  std::vector<int64_t> others;
  const auto note = [&](const Item& item) {
    if (const auto dim = scalar_of(item); dim && dim->is_constant() && dim->is_integral())
      others.push_back(dim->top.constant());
  };
  if (element >= 0 && node.kind != "aten::roll") {
    const Items& parts = *elements_of(environment.get(node.inputs[argument]));
    for (size_t k = 0; k < parts.size(); ++k)
      if (k != static_cast<size_t>(element)) note(parts[k]);
  }
  if (node.kind.find("diag") != std::string::npos)
    for (size_t i = 0; i < std::min(node.inputs.size(), node.argument_names.size()); ++i)
      if (i != argument && (node.argument_names[i] == "dim1" || node.argument_names[i] == "dim2"))
        note(environment.get(node.inputs[i]));
  return others;
}

// An argument that chooses one of few ways to compute, and the number of data in it.
struct DataChoice {
  size_t argument = 0;
  int element = -1;  // of a list; -1: the argument itself
  TensorRef number;
  std::vector<Item> choices;
  std::vector<double> numbers;  // that mean them
  int64_t period = 0;           // numbers that differ by it mean the same; 0: none do
  int64_t wrap = 0;             // added to negative numbers
  bool ranks_differ = false;    // of the results
  size_t other_argument = 0;    // that follows from the choice
  std::vector<Item> others;     // by choice; empty: none follows
};

void choose_dim(DataChoice& choice, int count, const std::vector<int64_t>& others) {
  for (int d = -count; d < count; ++d) {
    const int same = d < 0 ? d + count : d - count;
    if (std::any_of(others.begin(), others.end(),
                    [&](int64_t other) { return other == d || other == same; }))
      continue;
    choice.choices.emplace_back(d);
    choice.numbers.push_back(d);
  }
}

void choose_matrix_norm(DataChoice& choice) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double order : {1.0, -1.0, 2.0, -2.0, kInfinity, -kInfinity}) {
    choice.choices.emplace_back(order);
    choice.numbers.push_back(order);
  }
}

void choose_turns(DataChoice& choice) {
  for (int turns = 0; turns < 4; ++turns) {
    choice.choices.emplace_back(turns);
    choice.numbers.push_back(turns);
  }
  choice.period = 4;
}

void choose_one_of(DataChoice& choice, int first, int last) {
  for (int number = first; number <= last; ++number) {
    choice.choices.emplace_back(number);
    choice.numbers.push_back(number);
  }
}

size_t place_of(const ScriptNode& node, std::string_view argument) {
  const auto at = std::find(node.argument_names.begin(), node.argument_names.end(), argument);
  return static_cast<size_t>(at - node.argument_names.begin());
}

// The first and the last dim to flatten. If both depend on data and their difference does not, the
// last one follows from the first, so that all results have one rank.
std::optional<DataChoice> choose_flattened(const ScriptNode& node, Environment& environment) {
  const size_t places[] = {place_of(node, "start_dim"), place_of(node, "end_dim")};
  if (std::max(places[0], places[1]) >= node.inputs.size()) return std::nullopt;
  std::optional<int64_t> known[2], difference;
  std::optional<Dim> terms[2];
  for (const int i : {0, 1}) {
    const Item& item = environment.get(node.inputs[places[i]]);
    if (is_data_number(item))
      terms[i] = environment.memory().integer_of(std::get<TensorRef>(item.value));
    else if (const auto dim = scalar_of(item); dim && dim->is_constant())
      known[i] = dim->top.constant();
    else
      return std::nullopt;
  }
  if (known[0] && known[1]) return std::nullopt;
  if (terms[0] && terms[1] && (*terms[1] - *terms[0]).is_constant())
    difference = (*terms[1] - *terms[0]).constant();
  const int chosen = known[0] ? 1 : 0, count = count_dims(node, environment);
  DataChoice choice;
  choice.argument = places[chosen];
  choice.number = std::get<TensorRef>(environment.get(node.inputs[places[chosen]]).value);
  choice.other_argument = places[1];
  std::set<int64_t> lengths;  // how many dims become one
  const auto from_start = [&](int64_t dim) { return dim < 0 ? dim + count : dim; };
  for (int64_t d = -count; d < count; ++d) {
    const int64_t first = known[0].value_or(d);
    const std::optional<int64_t> last = chosen == 1  ? d
                                        : difference ? first + *difference
                                                     : known[1];
    if (last && (*last < -count || *last >= count || from_start(first) > from_start(*last)))
      continue;
    choice.choices.emplace_back(d);
    choice.numbers.push_back(static_cast<double>(d));
    if (difference) choice.others.emplace_back(*last);
    lengths.insert(last ? from_start(*last) - from_start(first) : count);
  }
  if (choice.choices.empty()) return std::nullopt;
  choice.ranks_differ = lengths.size() > 1;
  if (choice.ranks_differ && !difference) {  // one way for each dim, as the nodes after it repeat
    choice.wrap = count;
    const auto wraps = std::count_if(choice.numbers.begin(), choice.numbers.end(),
                                     [](double number) { return number < 0; });
    choice.choices.erase(choice.choices.begin(), choice.choices.begin() + wraps);
    choice.numbers.erase(choice.numbers.begin(), choice.numbers.begin() + wraps);
  }
  return choice;
}

// torch.linalg.norm is a matrix norm over two dims, or of a matrix.
bool is_matrix_norm(const ScriptNode& node, Environment& environment) {
  if (node.kind == "aten::linalg_matrix_norm") return true;
  if (node.kind != "aten::linalg_norm") return false;
  const size_t at = place_of(node, "dim");
  if (at >= node.inputs.size()) return false;
  const Item& dim = environment.get(node.inputs[at]);
  const Items* parts = elements_of(dim);
  return parts ? parts->size() == 2 : dim.is_none() && count_dims(node, environment) == 2;
}

std::optional<DataChoice> find_choice(const ScriptNode& node, Environment& environment) {
  if (node.kind == "aten::flatten") return choose_flattened(node, environment);
  const auto is_dim = [](const std::string& name) {
    return std::find(kDimArguments.begin(), kDimArguments.end(), name) != kDimArguments.end();
  };
  for (size_t i = 0; i < std::min(node.inputs.size(), node.argument_names.size()); ++i) {
    const std::string& name = node.argument_names[i];
    const bool dim = is_dim(name), turns = name == "k" && node.kind == "aten::rot90";
    const bool edge = name == "edge_order", split = name == "ind";
    if (!dim && !turns && !edge && !split && name != "ord") continue;
    const Item& item = environment.get(node.inputs[i]);
    DataChoice choice;
    choice.argument = i;
    if (is_data_number(item)) choice.number = std::get<TensorRef>(item.value);
    if (const Items* parts = dim ? elements_of(item) : nullptr)
      for (size_t k = 0; k < parts->size() && choice.number == nullptr; ++k)
        if (is_data_number((*parts)[k])) {
          choice.element = static_cast<int>(k);
          choice.number = std::get<TensorRef>((*parts)[k].value);
        }
    if (choice.number == nullptr) continue;
    if (dim)
      choose_dim(choice, count_dims(node, environment),
                 other_dims(node, environment, i, choice.element));
    else if (turns)
      choose_turns(choice);
    else if (edge)
      choose_one_of(choice, 1, 2);
    else if (split)
      choose_one_of(choice, 1, count_dims(node, environment) - 1);
    else if (is_matrix_norm(node, environment))
      choose_matrix_norm(choice);
    if (!choice.choices.empty()) return choice;
  }
  return std::nullopt;
}

Item with_choice(const Item& argument, int element, const Item& choice) {
  if (element < 0) return choice;
  Items items = *elements_of(argument);
  items[static_cast<size_t>(element)] = choice;
  return list_of(std::move(items));
}

// Whether the parts of the tensor may differ in number from dim to dim.
bool has_uneven_parts(const ScriptNode& node, Environment& environment) {
  constexpr std::string_view kKinds[] = {"aten::unbind", "aten::split", "aten::chunk"};
  if (std::find(std::begin(kKinds), std::end(kKinds), node.kind) == std::end(kKinds)) return false;
  const auto* tensor = std::get_if<TensorRef>(&environment.get(node.inputs.at(0)).value);
  if (tensor == nullptr || (*tensor)->is_complex()) return false;
  const Shape shape = environment.memory().type(*tensor).shape;
  return std::any_of(shape.begin(), shape.end(), [&](const Dim& d) { return d != shape[0]; });
}

// The op with one of the choices.
struct Way {
  ScriptNode node;
  double number;
  bool fails = false;
};

// For each way, whether data chooses it, and whether it chooses any.
struct Conditions {
  std::vector<Value> each;
  Value any;
};
Conditions conditions_of(const std::vector<Way>& ways, const DataChoice& choice, Memory& memory) {
  Graph& g = memory.graph();
  Value number = memory.read(choice.number);
  if (!is_float(number.dtype())) number = cast(number, i64);
  if (choice.wrap > 0)
    number = g.call("where", {g.call("lt", {number, g.scalar(int64_t{0}, i64)}),
                              g.call("add", {number, g.scalar(choice.wrap, i64)}), number});
  if (choice.period > 0)
    number = g.call("remainder", {number, g.scalar(choice.period, number.dtype())});
  Conditions made;
  for (const Way& way : ways) {
    const Value is_one = g.call(
        "eq", {number, is_float(number.dtype()) ? g.scalar(way.number, number.dtype())
                                                : g.scalar(static_cast<int64_t>(way.number), i64)});
    made.each.push_back(is_one);
    made.any = made.any ? g.call("logical_or", {made.any, is_one}) : is_one;
  }
  return made;
}

// The ways as nested branches of `node`, from the last, which needs no condition, to the first.
// `add_value` adds an item to the values and returns its id.
template <class AddValue>
ScriptNode branches_of(const ScriptNode& node, std::vector<Way>& ways,
                       const std::vector<Value>& conditions, Memory& memory,
                       const AddValue& add_value) {
  ScriptNode chosen = std::move(ways.back().node);
  for (size_t c = ways.size() - 1; c-- > 0;) {
    ScriptNode either;
    either.kind = "prim::If";
    either.output_types = node.output_types;
    either.origin = node.origin;
    either.inputs = {add_value(Item(memory.make_number(conditions[c])))};
    either.outputs = node.outputs;
    for (ScriptNode* side : {&ways[c].node, &chosen}) {
      for (ScriptId& id : side->outputs) id = add_value({});
      either.blocks.push_back({{}, {}, side->outputs});
      either.blocks.back().nodes.push_back(std::move(*side));
    }
    chosen = std::move(either);
  }
  return chosen;
}

}  // namespace

// split() and chunk() as a list whose parts are slices of the tensor, which may be written. Returns
// false if all dims have equally many parts, or if the size of a part is unknown.
bool Interpreter::give_parts(const ScriptNode& node, TensorRef dim) {
  const Item whole = get(node.inputs[0]), asked = get(node.inputs.at(1));
  const auto term = [&](const Item& item) -> std::optional<Dim> {
    if (const auto scalar = scalar_of(item); scalar && scalar->is_integral()) return scalar->top;
    if (is_data_number(item)) return memory_.integer_of(std::get<TensorRef>(item.value));
    return std::nullopt;
  };
  const std::optional<Dim> given = term(asked);
  if (!given) return false;
  const Dim number = max(*given, 1);
  const auto size_of = [&](const Dim& extent) {
    return node.kind == "aten::chunk" ? max(ceildiv(extent, number), 1) : number;
  };
  const Shape shape = memory_.type(std::get<TensorRef>(whole.value)).shape;
  const auto is_even = [&](const Dim& extent) {
    return ceildiv(extent, size_of(extent)) == ceildiv(shape[0], size_of(shape[0]));
  };
  if (std::all_of(shape.begin(), shape.end(), is_even)) return false;
  const std::optional<Dim> extent =
      term(run_op("aten::size", {{"self", whole}, {"dim", Item(dim)}}, 1, node.origin)[0]);
  if (!extent) return false;
  memory_.graph().guard(1, Relation::le, *given, "a size or a number of parts");
  const Dim size = size_of(*extent), is_empty = 1 - min(*extent, 1);
  const Dim count =
      max(ceildiv(*extent, size), node.kind == "aten::chunk" ? is_empty * number : is_empty);
  auto parts = std::make_shared<PartsByData>(PartsByData{
      node.kind, {{"self", whole}, {node.argument_names[1], asked}}, std::move(dim), node.origin});
  auto list = std::make_shared<List>();
  list->pieces = std::make_shared<Pieces>(Pieces{std::get<TensorRef>(whole.value), 0, size, count,
                                                 0, 0, false, &memory_.graph(), std::move(parts)});
  set(node.outputs[0], Item(std::move(list)));
  return true;
}

bool Interpreter::run_at_data_choice(const ScriptNode& node) {
  // The dims of tile() are repetitions.
  if (!node.kind.starts_with("aten::") || node.kind == "aten::tile") return false;
  const std::optional<DataChoice> found = find_choice(node, *this);
  if (!found) return false;
  const bool may_split = splits_.take();
  if (found->ranks_differ && !may_split)
    throw Refusal{
        str_cat("argument '", node.argument_names[found->argument],
                "' depends on data, and so does the number of dims of the result"),
        "use reshape(), whose sizes may depend on data, or write the number in the script"};
  const bool is_uneven = has_uneven_parts(node, *this);
  if (is_uneven && node.kind != "aten::unbind" && tracks_memory_ &&
      node.outputs[0] < program_.value_count && give_parts(node, found->number))
    return true;
  if (is_uneven && node.kind == "aten::unbind") {  // the dim becomes the first of a view
    const Item dim = get(node.inputs[found->argument]);
    const Item moved = run_op(
        "aten::movedim", {{"self", get(node.inputs[0])}, {"source", dim}, {"destination", Item(0)}},
        1, node.origin)[0];
    set(node.outputs[0],
        run_op("aten::unbind", {{"self", moved}, {"dim", Item(0)}}, 1, node.origin)[0]);
    return true;
  }
  const size_t count = found->choices.size(), more = count * (node.outputs.size() + 3);
  if (!values_.has_room(more))
    throw Refusal{"the op has too many dims for one that depends on data", ""};
  struct Spare {  // of the values of the branches
    Values& all;
    size_t count = all.count();
    ~Spare() { all.drop(count); }
  } spare{values_};
  const auto add_value = [&](Item item) { return values_.add(std::move(item)); };
  std::vector<Way> ways;
  const Item argument = get(node.inputs[found->argument]);
  const std::string& name = node.argument_names[found->argument];
  for (size_t c = 0; c < count; ++c) {
    Way& way = ways.emplace_back(Way{node, found->numbers[c]});
    way.node.inputs[found->argument] =
        add_value(with_choice(argument, found->element, found->choices[c]));
    if (!found->others.empty())
      way.node.inputs[found->other_argument] = add_value(found->others[c]);
  }
  // The op rejects some choices for sizes, as cross() does dims of a size other than 3.
  for (Way& way : ways) {
    ScriptBlock alone;
    alone.nodes.push_back(way.node);
    way.fails = try_alone(alone).end != Tried::End::runs;
  }
  const auto fails = [](const Way& way) { return way.fails; };
  if (!std::all_of(ways.begin(), ways.end(), fails)) std::erase_if(ways, fails);
  if (ways.size() < count) {
    std::string numbers;
    for (const Way& way : ways) numbers += str_cat(numbers.empty() ? "" : ", ", way.number);
    note(str_cat(node.kind, ": '", name, "' depends on data and can be ", numbers));
  }
  const Conditions conditions = conditions_of(ways, *found, memory_);
  require(Item(memory_.make_number(conditions.any)), true,
          str_cat(node.kind, ": '", name, "' has a value that the op does not allow"));
  if (found->ranks_differ && ways.size() > 1) {
    Splitting splitting;
    for (Way& way : ways) splitting.ways.push_back(std::move(way.node));
    for (size_t c = 0; c + 1 < ways.size(); ++c)
      splitting.conditions.push_back(add_value(Item(memory_.make_number(conditions.each[c]))));
    spare.count = values_.count();  // run_nodes() drops the values after the ways
    throw splitting;
  }
  (void)splits_.take();
  try {
    dispatch(branches_of(node, ways, conditions.each, memory_, add_value));
  } catch (const Refusal& refusal) {
    throw Refusal{
        str_cat("argument '", name,
                "' depends on data, and its results do not fit together: ", refusal.reason),
        "write the number in the script, or make it an argument of forward that is no "
        "tensor and give its value with --constant"};
  }
  return true;
}

}  // namespace hg::convert
