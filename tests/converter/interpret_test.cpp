// SPDX-License-Identifier: Apache-2.0
// The interpreter on small script programs: what it resolves and keeps, and that the graph computes
// what the script says.
#include "converter/interpret/interpret.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hg/hg.h"
#include "tests/support/must.h"
#include "tests/converter/script_text.h"

namespace hg::convert {
namespace {

using test::script;

Imported import(const ScriptProgram& program, std::vector<InputSpec> inputs) {
  return import_program(program, inputs, Registry::built_in());
}

std::string failures(const Imported& imported) {
  std::string all;
  for (const Unsupported& u : imported.unsupported) all += u.op + ": " + u.reason + "\n";
  return all;
}

TensorData numbers(Sizes shape, std::vector<float> values) {
  TensorData data = *TensorData::copy_of(view(values.data(), f32, shape));
  return data;
}

// Imports with f32 inputs, runs, and returns the outputs as floats.
std::vector<std::vector<double>> run(const Imported& imported, std::vector<TensorData> inputs) {
  EXPECT_EQ(failures(imported), "");
  Result<Model> model = Model::from_graph(Graph(imported.graph));
  EXPECT_TRUE(model.ok()) << model.status().message();
  if (!model.ok()) return {};
  SessionOptions options;
  options.threads = 1;
  Result<Session> session = Session::create(*model, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return {};
  for (size_t i = 0; i < inputs.size(); ++i) {
    must(session->set_input(static_cast<int>(i), inputs[i].tensor));
  }
  const Status status = session->run();
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<std::vector<double>> outputs;
  for (size_t i = 0; i < imported.graph.outputs().size() && status.ok(); ++i) {
    const Tensor t = *session->output(static_cast<int>(i));
    const TensorData dense = *TensorData::copy_of(t);
    std::vector<double> values;
    for (int64_t k = 0; k < t.count(); ++k) {
      if (t.dtype == f32)
        values.push_back(dense.tensor.as<float>()[k]);
      else if (t.dtype == f64)
        values.push_back(dense.tensor.as<double>()[k]);
      else if (t.dtype == i64)
        values.push_back(static_cast<double>(dense.tensor.as<int64_t>()[k]));
      else if (t.dtype == boolean)
        values.push_back(dense.tensor.as<bool>()[k]);
    }
    outputs.push_back(values);
  }
  return outputs;
}

using Values = std::vector<double>;

TEST(Interpret, AddsTwoInputs) {
  const ScriptProgram p = script({"x", "y"}, R"(
    %z:Tensor = aten::add.Tensor(self=%x, other=%y, alpha=2)
    return %z)");
  const Imported i = import(p, {{"x", {f32, {"n"}}}, {"y", {f32, {"n"}}}});
  EXPECT_EQ(run(i, {numbers({2}, {1, 2}), numbers({2}, {10, 20})})[0], (Values{21, 42}));
}

TEST(Interpret, ListsAllMissingOps) {
  const ScriptProgram p = script({"x"}, R"(
    %a:Tensor = acme::one(%x)
    %b:Tensor = aten::neg(self=%a)
    %c:Tensor = acme::two(%b)
    %d:Tensor = acme::one(%x)
    return %c)");
  const Imported i = import(p, {{"x", {f32, {2}}}});
  ASSERT_EQ(i.unsupported.size(), 3u) << failures(i);  // acme::one has calls at two places
  EXPECT_EQ(i.unsupported[0].op, "acme::one");
  EXPECT_EQ(i.unsupported[1].op, "acme::two");
}

TEST(Interpret, InPlaceChangesWhatSharesMemory) {
  const ScriptProgram p = script({"x"}, R"(
    %y:Tensor = aten::mul.Scalar(self=%x, other=1.0)
    %v:Tensor = aten::detach(self=%y)
    %i:Tensor = aten::add_.Scalar(self=%v, other=5, alpha=1)
    %z:Tensor = aten::mul.Scalar(self=%y, other=2)
    return %z, %i)");
  const Imported i = import(p, {{"x", {f32, {2}}}});
  const auto out = run(i, {numbers({2}, {1, 2})});
  EXPECT_EQ(out[0], (Values{12, 14}));
  EXPECT_EQ(out[1], (Values{6, 7}));
}

TEST(Interpret, WritesThroughChainsOfViews) {
  const ScriptProgram p = script({"x"}, R"(
    %y:Tensor = aten::clone(self=%x, memory_format=none)
    %dims:Tensor = prim::ListConstruct(3, 2)
    %m:Tensor = aten::view(self=%y, size=%dims)
    %row:Tensor = aten::select.int(self=%m, dim=0, index=1)
    %part:Tensor = aten::slice.Tensor(self=%row, dim=0, start=1, end=none, step=1)
    %f:Tensor = aten::fill_.Scalar(self=%part, value=9.0)
    %g:Tensor = aten::add_.Scalar(self=%y, other=1, alpha=1)
    return %y, %row, %x)");
  const Imported i = import(p, {{"x", {f32, {6}}}});
  const auto out = run(i, {numbers({6}, {0, 1, 2, 3, 4, 5})});
  EXPECT_EQ(out[0], (Values{1, 2, 3, 10, 5, 6}));
  EXPECT_EQ(out[1], (Values{3, 10}));
  EXPECT_EQ(out[2], (Values{0, 1, 2, 3, 4, 5}));
}

TEST(Interpret, BuffersThatAreWrittenAreAssigned) {
  ScriptProgram p = script({"x"}, R"(
    %b:Tensor = prim::GetAttr[count](%self)
    %c:Tensor = aten::add_.Tensor(self=%b, other=%x, alpha=1)
    %d:Tensor = aten::mul.Tensor(self=%b, other=%x)
    return %d)");
  test::add_tensor(p, "count", State::Kind::buffer, numbers({1}, {10}));
  test::add_tensor(p, "unused", State::Kind::parameter, numbers({1}, {1}));
  const Imported i = import(p, {{"x", {f32, {1}}}});
  EXPECT_EQ(run(i, {numbers({1}, {2})})[0], (Values{24}));
  ASSERT_EQ(i.graph.assignments().size(), 1u);
  EXPECT_EQ(i.graph.value_info(i.graph.assignments()[0].first).name, "count");
  for (const State& state : i.graph.states()) EXPECT_NE(state.name, "unused");
}

TEST(Interpret, ContainersAreResolved) {
  const ScriptProgram p = script({"x"}, R"(
    %l:List = prim::ListConstruct(%x)
    %y:Tensor = aten::neg(self=%x)
    %l2:List = aten::append.t(%l, %y)
    %k = prim::Constant()
    %d:Dict = prim::DictConstruct("a", %x, "b", %y)
    %n:int = aten::len.t(%l)
    %last:Tensor = aten::__getitem__.t(%l, -1)
    %b:Tensor = aten::__getitem__.Dict_str(%d, "b")
    %has:bool = aten::__contains__.str(%d, "c")
    %t:Tuple = prim::TupleConstruct(%last, %b)
    %p:Tensor, %q:Tensor = prim::TupleUnpack(%t)
    if %has -> %r:Tensor { yield %x } else { yield %p }
    %s:Tensor = aten::add.Scalar(self=%r, other=%n, alpha=1)
    return %s, %d)");
  const Imported i = import(p, {{"x", {f32, {1}}}});
  const auto out = run(i, {numbers({1}, {5})});
  EXPECT_EQ(out[0], (Values{-3}));
  ASSERT_EQ(i.graph.outputs().size(), 3u);
  EXPECT_EQ(i.graph.outputs()[1].first, "a");
  EXPECT_EQ(i.graph.outputs()[2].first, "b");
}

TEST(Interpret, ShapeArithmeticStaysSymbolic) {
  const ScriptProgram p = script({"x"}, R"(
    %h:int = aten::size.int(self=%x, dim=0)
    %t:Tensor = prim::NumToTensor.Scalar(%h)
    %two:Tensor = prim::NumToTensor.Scalar(2)
    %m:Tensor = aten::mul.Tensor(self=%t, other=%two)
    %f:Tensor = aten::to.dtype(self=%m, dtype=6, non_blocking=false, copy=false, memory_format=none)
    %g:Tensor = aten::mul.Scalar(self=%f, other=0.5)
    %e:Tensor = aten::floor(self=%g)
    %k:int = aten::Int.Tensor(%e)
    %d:int = aten::floordiv.int(%k, 2)
    %r:int = aten::add.int(%d, 1)
    %s:List = prim::ListConstruct(%r, %k)
    %z:Tensor = aten::zeros(size=%s, dtype=6, layout=none, device=none, pin_memory=none)
    %w:Tensor = aten::sub.Scalar(self=%z, other=%m, alpha=1)
    return %z)");
  const Imported i = import(p, {{"x", {f32, {"n"}}}});
  ASSERT_EQ(failures(i), "");
  EXPECT_EQ(str_cat(i.graph.value_info(i.graph.outputs()[0].second).type),
            "f32[floordiv(n, 2) + 1, n]");
  EXPECT_EQ(run(i, {numbers({4}, {0, 0, 0, 0})})[0].size(), 12u);
}

TEST(Interpret, SizesBecomeTensorsWhenComputedWith) {
  const ScriptProgram p = script({"x"}, R"(
    %h:int = aten::size.int(self=%x, dim=0)
    %t:Tensor = prim::NumToTensor.Scalar(%h)
    %z:Tensor = aten::mul.Tensor(self=%x, other=%t)
    return %z, %h)");
  const Imported i = import(p, {{"x", {f32, {"n"}}}});
  const auto out = run(i, {numbers({3}, {1, 2, 3})});
  EXPECT_EQ(out[0], (Values{3, 6, 9}));
  EXPECT_EQ(out[1], (Values{3}));
}

TEST(Interpret, LoopsOverConstantsAreUnrolled) {
  const ScriptProgram p = script({"x"}, R"(
    loop 3, true, %x -> %y:Tensor (%i, %v) {
      %w:Tensor = aten::add.Scalar(self=%v, other=%i, alpha=1)
      yield true, %w
    }
    return %y)");
  const Imported i = import(p, {{"x", {f32, {1}}}});
  EXPECT_EQ(run(i, {numbers({1}, {10})})[0], (Values{13}));
  EXPECT_EQ(i.trace.size(), 3u);
}

constexpr const char* kBranch = R"(
    %s:Tensor = aten::select.int(self=%x, dim=0, index=0)
    %c:Tensor = aten::gt.Scalar(self=%s, other=0)
    %b:bool = aten::Bool.Tensor(%c)
    %y:Tensor = aten::clone(self=%x, memory_format=none)
    if %b -> %r:Tensor, %k:int {
      %u:Tensor = aten::mul.Scalar(self=%x, other=2)
      %z:Tensor = aten::add_.Scalar(self=%y, other=100, alpha=1)
      yield %u, 1
    } else {
      %v:Tensor = aten::neg(self=%x)
      yield %v, 2
    }
    %q:Tensor = aten::add.Scalar(self=%y, other=%k, alpha=1)
    return %r, %q)";

// How many values of nodes of this kind the search for a wrong node can compare.
int64_t traced(const Imported& imported, std::string_view kind) {
  return std::count_if(imported.trace.begin(), imported.trace.end(), [&](const Executed& each) {
    return each.node->kind == kind && each.outputs.at(0) != kNoValue;
  });
}

TEST(Interpret, BranchesThatDataDecidesAreKept) {
  const ScriptProgram p = script({"x"}, kBranch);
  const Imported i = import(p, {{"x", {f32, {2}}}});
  auto out = run(i, {numbers({2}, {1, 2})});
  EXPECT_EQ(out[0], (Values{2, 4}));
  EXPECT_EQ(out[1], (Values{102, 103}));
  out = run(i, {numbers({2}, {-1, 2})});
  EXPECT_EQ(out[0], (Values{1, -2}));
  EXPECT_EQ(out[1], (Values{1, 4}));
  EXPECT_EQ(traced(i, "prim::If"), 1);
}

TEST(Interpret, LoopsThatDataEndsAreKept) {
  const ScriptProgram p = script({"x"}, R"(
    %c0:Tensor = aten::lt.Scalar(self=%x, other=100)
    %b0:bool = aten::Bool.Tensor(%c0)
    %acc:Tensor = aten::clone(self=%x, memory_format=none)
    loop 9223372036854775807, %b0, %x, 0 -> %y:Tensor, %n:int (%i, %v, %k) {
      %w:Tensor = aten::mul.Scalar(self=%v, other=2)
      %a:Tensor = aten::add_.Scalar(self=%acc, other=1, alpha=1)
      %m:int = aten::add.int(%k, 1)
      %c:Tensor = aten::lt.Scalar(self=%w, other=100)
      %b:bool = aten::Bool.Tensor(%c)
      yield %b, %w, %m
    }
    return %y, %n, %acc)");
  const Imported i = import(p, {{"x", {f32, {}}}});
  const auto out = run(i, {numbers({}, {3})});
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0], (Values{192}));
  EXPECT_EQ(out[1], (Values{6}));
  EXPECT_EQ(out[2], (Values{9}));
  EXPECT_EQ(traced(i, "prim::Loop"), 1);
}

std::vector<std::string> guards(const Imported& imported) {
  std::vector<std::string> all;
  for (Guard guard : imported.graph.guards()) {
    guard.origin = {};
    all.push_back(str_cat(guard));
  }
  return all;
}

constexpr const char* kRaise = R"(
    if %c {
      yield
    } else {
      prim::RaiseException("too small")
      yield
    }
    return %x)";

TEST(Interpret, ChecksThatDataDecidesFailTheRun) {
  const std::string start = R"(
    %s:Tensor = aten::sum(self=%x, dtype=none)
    %p:Tensor = aten::gt.Scalar(self=%s, other=0)
    %c:bool = aten::Bool.Tensor(%p))";
  const ScriptProgram p = script({"x"}, start + kRaise);
  const Imported i = import(p, {{"x", {f32, {"n"}}}});
  EXPECT_EQ(failures(i), "");
  const auto is_assertion = [](const Node& node) { return node.op->name() == "assert_true"; };
  const auto& nodes = i.graph.nodes();
  const auto found = std::find_if(nodes.begin(), nodes.end(), is_assertion);
  ASSERT_NE(found, nodes.end());
  EXPECT_EQ(std::get<std::string>(found->attrs.at(0).value),
            "the model raises an exception: too small");
}

TEST(Interpret, ChecksThatSizesDecideAreGuards) {
  const std::string start = R"(
    %h:int = aten::size.int(self=%x, dim=0)
    %c:bool = aten::gt.int(%h, 5))";
  const ScriptProgram p = script({"x"}, start + kRaise);
  const Imported i = import(p, {{"x", {f32, {"n"}}}});
  EXPECT_EQ(failures(i), "");
  EXPECT_EQ(guards(i),
            std::vector<std::string>{"5 < n, because of a check that raises an exception"});
  const Imported small = import(p, {{"x", {f32, {3}}}});
  EXPECT_NE(failures(small).find("too small"), std::string::npos);
}

TEST(Interpret, WhatSizesMustBeIsAGuard) {
  const auto guards_of = [&](const std::string& line) {
    const ScriptProgram p = script({"x"}, line + "\n    return %y");
    const Imported i = import(p, {{"x", {f32, {"n", 4}}}});
    EXPECT_EQ(failures(i), "") << line;
    return guards(i);
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(guards_of("%y:Tensor = aten::squeeze.dim(self=%x, dim=0)"),
            Texts{"n != 1, because of squeeze"});
  EXPECT_EQ(guards_of("%y:Tensor = aten::select.int(self=%x, dim=0, index=2)"),
            Texts{"2 < n, because of index 2"});
  EXPECT_EQ(guards_of("%y:Tensor = aten::select.int(self=%x, dim=0, index=-1)"),
            Texts{"1 <= n, because of index -1"});
  EXPECT_EQ(guards_of("%y:Tensor = aten::select.int(self=%x, dim=1, index=2)"), Texts{});
  EXPECT_EQ(guards_of("%y:Tensor = aten::narrow(self=%x, dim=0, start=1, length=3)"),
            Texts{"4 <= n, because of narrow"});
  EXPECT_EQ(guards_of("%w:Tensor = aten::unfold(self=%x, dimension=0, size=3, step=2)\n"
                      "%y:Tensor = aten::relu(self=%x)"),
            Texts{"3 <= n, because of unfold"});
  EXPECT_EQ(guards_of("%y:Tensor = aten::slice.Tensor(self=%x, dim=0, start=1, end=none, step=1)"),
            Texts{"1 <= n, because of a slice that would be cut off"});
  EXPECT_EQ(guards_of("%y:Tensor = aten::slice.Tensor(self=%x, dim=0, start=none, end=7, step=1)"),
            Texts{});
  EXPECT_EQ(guards_of("%y:Tensor = aten::max(self=%x)"), Texts{"n != 0, because of max"});
  EXPECT_EQ(guards_of("%y:Tensor = aten::amin(self=%x, dim=1, keepdim=false)"), Texts{});
  EXPECT_EQ(guards_of("%y:Tensor = aten::argmax(self=%x, dim=0, keepdim=false)"),
            Texts{"n != 0, because of argmax"});
  EXPECT_EQ(guards_of("%y:Tensor = aten::logsumexp(self=%x, dim=[0], keepdim=false)"), Texts());
  EXPECT_EQ(guards_of("%p:List = prim::ListConstruct(0, 0, 1, -2)\n"
                      "%y:Tensor = aten::constant_pad_nd(self=%x, pad=%p, value=0)"),
            Texts{"2 <= n, because of a negative pad"});
  EXPECT_EQ(guards_of("%y:Tensor = aten::view(self=%x, size=[-1])"), Texts{});
  const Texts computed = guards_of(
      "%t:Tensor = aten::t(self=%x)\n"
      "%e:Tensor = aten::exp(self=%t)\n"
      "%y:Tensor = aten::view(self=%e, size=[-1])");
  ASSERT_EQ(computed.size(), 1u);
  EXPECT_TRUE(computed[0].ends_with(", because of view")) << computed[0];
  const Texts halves = guards_of(
      "%h:Tensor = aten::slice.Tensor(self=%x, dim=1, start=0, end=2, step=1)\n"
      "%y:Tensor = aten::view(self=%h, size=[-1])");
  ASSERT_EQ(halves.size(), 1u);
  EXPECT_TRUE(halves[0].ends_with(", because of view")) << halves[0];
  const Texts parts = guards_of(
      "%l:List = aten::chunk(self=%x, chunks=2, dim=0)\n"
      "%y:Tensor, %z:Tensor = prim::ListUnpack(%l)");
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_TRUE(parts[0].ends_with(" == 2, because of a list of 2 parts")) << parts[0];
}

// An op whose result is used checks its own sizes when it runs.
TEST(Interpret, BroadcastingThatNobodyReadsIsAGuard) {
  const auto guards_of = [&](const std::string& result) {
    const ScriptProgram p = script({"x", "w"}, R"(
    %z:Tensor = aten::mul.Tensor(self=%x, other=%w)
    %y:Tensor = aten::relu(self=%x)
    return )" + result);
    return guards(import(p, {{"x", {f32, {"n", 4}}}, {"w", {f32, {"m", 4}}}}));
  };
  EXPECT_TRUE(guards_of("%z").empty());
  const std::vector<std::string> unread = guards_of("%y");
  ASSERT_FALSE(unread.empty());
  for (const std::string& guard : unread)
    EXPECT_TRUE(guard.ends_with(", because of broadcasting")) << guard;
}

TEST(Interpret, WhatARuleTakesForGrantedIsAGuardWhereNobodyReads) {
  const auto guards_of = [&](const std::string& line, bool read = false) {
    const ScriptProgram p = script(
        {"x", "w"}, "%z:Tensor = " + line + "\n    %y:Tensor = aten::relu(self=%x)\n    return " +
                        (read ? "%z" : "%y"));
    const Imported i = import(p, {{"x", {f32, {"n", "a"}}}, {"w", {f32, {"m", "b"}}}});
    EXPECT_EQ(failures(i), "") << line;
    return guards(i);
  };
  using Texts = std::vector<std::string>;
  const std::string product = "aten::mm(self=%x, mat2=%w)";
  EXPECT_EQ(guards_of(product), Texts{"a == m, because of matmul"});
  EXPECT_EQ(guards_of(product, true), Texts{});
  EXPECT_EQ(guards_of("aten::cdist(x1=%x, x2=%w, p=2)").size(), 1u);
}

TEST(Interpret, AWayWithoutOneRankIsAGuardAndElseAnIf) {
  const auto import_of = [&](const std::string& lines) {
    const ScriptProgram p = script({"x"}, lines + "\n    return %y");
    Imported i = import(p, {{"x", {f32, {"n", 4}}}});
    EXPECT_EQ(failures(i), "") << lines;
    return i;
  };
  const std::string squeeze = "%s:Tensor = aten::squeeze.dim(self=%x, dim=0)\n";
  const Imported one_rank = import_of(squeeze + "%y:Tensor = aten::sum(self=%s, dtype=none)");
  EXPECT_TRUE(guards(one_rank).empty());
  EXPECT_EQ(run(one_rank, {numbers({1, 4}, {1, 2, 3, 4})}), (std::vector<Values>{{10}}));
  EXPECT_EQ(run(one_rank, {numbers({2, 4}, std::vector<float>(8, 1))}), (std::vector<Values>{{8}}));
  const Imported two_ranks = import_of(squeeze + "%y:Tensor = aten::relu(self=%s)");
  EXPECT_EQ(guards(two_ranks), std::vector<std::string>{"n != 1, because of squeeze"});
  ASSERT_EQ(two_ranks.notes.size(), 1u);
  EXPECT_EQ(two_ranks.notes[0],
            "the file accepts only sizes with n != 1, because of squeeze at line:1; for n == 1, "
            "convert with --dim n=1 or --check-size n=1");
}

// If the rank depends on sizes, the program decides which rank is meant, or else the user.
TEST(Interpret, AForkTakesTheWayThatFits) {
  using Texts = std::vector<std::string>;
  const auto guards_of = [&](const std::string& lines, int64_t asked = 0,
                             std::optional<int> rank = {}) {
    ScriptProgram p = script({"x"}, lines + "\n    return %y");
    if (asked > 0) p.asked_sizes = {{"k", asked}};
    if (rank) p.output_ranks = {rank};
    const Imported i = import(p, {{"x", {f32, {"n", "k", 6}}}});
    EXPECT_EQ(failures(i), "") << lines;
    EXPECT_EQ(i.notes.size(), guards(i).size()) << lines;
    return guards(i);
  };
  const std::string squeeze = "%s:Tensor = aten::squeeze.dim(self=%x, dim=1)\n";
  const std::string relu = squeeze + "%y:Tensor = aten::relu(self=%s)";
  const Texts one = {"k == 1, because of squeeze"}, more = {"k != 1, because of squeeze"};
  EXPECT_EQ(guards_of(relu), one);  // a squeezed dim is probably 1
  EXPECT_EQ(guards_of(relu, 1), one);
  EXPECT_EQ(guards_of(relu, 5), more);
  EXPECT_EQ(guards_of(relu, 0, 3), more);
  EXPECT_EQ(guards_of(relu, 0, 2), one);
  // One reader needs three dims, the other two.
  EXPECT_EQ(guards_of(squeeze + "%y:Tensor = aten::transpose.int(self=%s, dim0=0, dim1=2)"), more);
  EXPECT_EQ(guards_of(squeeze + "%y:Tensor = aten::t(self=%s)"), one);
  // squeeze() of all dims: the result for most sizes.
  EXPECT_EQ(guards_of("%y:Tensor = aten::squeeze(self=%x)", 5).size(), 2u);
  // A later squeeze follows the decision for an earlier one.
  const ScriptProgram p = script({"x"}, R"(
    %s:Tensor = aten::squeeze(self=%x)
    %y:Tensor = aten::squeeze.dim(self=%s, dim=1)
    return %y)");
  const Imported twice = import(p, {{"x", {f32, {"n", "k", 6}}}});
  EXPECT_EQ(run(twice, {numbers({2, 3, 6}, std::vector<float>(36, 1))}).at(0).size(), 36u);
}

TEST(Interpret, ABranchOfOtherRanksGoesOnUntilTheyMeet) {
  const std::string branch = R"(
    %k:int = aten::size.int(self=%x, dim=1)
    %c:bool = aten::eq.int(%k, 1)
    if %c -> %s:Tensor {
      %a:Tensor = aten::squeeze.dim(self=%x, dim=1)
      yield %a
    } else {
      yield %x
    }
)";
  const auto import_of = [&](const std::string& lines, const Shape& shape = {"n", "k"}) {
    const ScriptProgram p = script({"x"}, branch + lines + "\n    return %y");
    Imported i = import(p, {{"x", {f32, shape}}});
    EXPECT_EQ(failures(i), "") << lines;
    return i;
  };
  const Imported met = import_of("    %y:Tensor = aten::sum(self=%s, dtype=none)");
  EXPECT_TRUE(guards(met).empty());
  EXPECT_TRUE(met.notes.empty());
  EXPECT_EQ(run(met, {numbers({2, 1}, {1, 2})}), (std::vector<Values>{{3}}));
  EXPECT_EQ(run(met, {numbers({1, 3}, {1, 2, 4})}), (std::vector<Values>{{7}}));
  const Imported apart = import_of("    %y:Tensor = aten::relu(self=%s)");
  EXPECT_EQ(guards(apart), std::vector<std::string>{"k != 1, because of `if`"});
  EXPECT_EQ(apart.notes.size(), 1u);
  const Imported needs_one = import_of("    %y:Tensor = aten::t(self=%s)", {"n", "k", 6});
  EXPECT_EQ(guards(needs_one), std::vector<std::string>{"k == 1, because of `if`"});
}

TEST(Interpret, PromotesAsTorchDoes) {
  const ScriptProgram p = script({"x", "s"}, R"(
    %a:Tensor = aten::add.Scalar(self=%x, other=2.5, alpha=1)
    %b:Tensor = aten::add.Tensor(self=%x, other=%s, alpha=1)
    %c:Tensor = aten::div.Scalar(self=%x, other=2)
    %d:Tensor = aten::mul.Scalar(self=%x, other=3)
    return %a, %b, %c, %d)");
  const Imported i = import(p, {{"x", {i32, {2}}}, {"s", {i64, {}}}});
  ASSERT_EQ(failures(i), "");
  const auto dtype = [&](size_t k) {
    return i.graph.value_info(i.graph.outputs()[k].second).type.dtype;
  };
  EXPECT_EQ(dtype(0), f32);
  EXPECT_EQ(dtype(1), i32);  // a 0-d tensor of the same kind does not widen
  EXPECT_EQ(dtype(2), f32);
  EXPECT_EQ(dtype(3), i32);
}

TEST(Interpret, MissingInputsAreNamed) {
  const ScriptProgram p = script({"x", "mask"}, "return %x, %mask");
  const Imported i = import(p, {{"x", {f32, {2}}}});
  ASSERT_EQ(i.unsupported.size(), 1u);
  EXPECT_NE(i.unsupported[0].reason.find("mask"), std::string::npos);
}

}  // namespace
}  // namespace hg::convert
