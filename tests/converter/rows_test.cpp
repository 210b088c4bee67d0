// SPDX-License-Identifier: Apache-2.0
// Rows contain everything the converter knows about an op: no name occurs twice, the fields of a
// row are consistent, and every aten op named elsewhere has a row.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "converter/aten/table.h"
#include "converter/script/fold.h"

namespace hg::convert {
namespace {

namespace fs = std::filesystem;

bool is_of_overload(const Row& row) { return row.op.find('.') != row.op.npos; }

TEST(Rows, EachNameStandsOnce) {
  ASSERT_GT(every_row().size(), 900u);
  std::string_view last;
  for (const Row* row : every_row()) {
    EXPECT_LT(last, row->op);
    last = row->op;
    EXPECT_EQ(row_named(row->op), row);
    const std::string_view space = row->op.substr(0, row->op.find("::"));
    EXPECT_TRUE(space == "aten" || space == "torchvision" || space == "quantized_decomposed" ||
                space == "transformers" || space == "hologram" ||
                (row->run == nullptr && (space == "prim" || space == "profiler")))
        << row->op;
  }
}

TEST(Rows, EachTakesSomething) {
  for (const Row* row : every_row())
    EXPECT_TRUE(row->run || row->script[0] || row->complex.compute) << row->op;
}

TEST(Rows, TraitsFitTogether) {
  for (const Row* row : every_row()) {
    SCOPED_TRACE(row->op);
    const OnComplex::Rule rule = row->complex.rule;
    EXPECT_EQ(rule == OnComplex::function, row->complex.compute != nullptr);
    // These rules run `run` on parts.
    const bool refuses = rule == OnComplex::unsaid || rule == OnComplex::refused;
    EXPECT_TRUE(row->run || refuses || rule == OnComplex::function);
    EXPECT_TRUE(row->run || row->layout == ResultLayout::unsaid);
    EXPECT_TRUE(row->run || !row->fold.run);
    EXPECT_TRUE(row->run || !row->reshapes_in_place);
    EXPECT_TRUE(row->fold.run || row->fold.op.empty());
    // Script functions come first, without gaps.
    for (size_t i = 1; i < row->script.size(); ++i)
      EXPECT_TRUE(row->script[i - 1] || !row->script[i]);
    EXPECT_TRUE(row->script[0] || !row->script_takes_complex);
    EXPECT_TRUE(row->script[0] || !row->takes_nested);
    EXPECT_TRUE(row->script[0] || !row->takes_parts);
  }
}

// These fields are looked up by the op's name alone.
TEST(Rows, OverloadsSayNothingOfAllOverloads) {
  for (const Row* row : every_row()) {
    if (!is_of_overload(*row)) continue;
    SCOPED_TRACE(row->op);
    EXPECT_NE(row->run, nullptr);
    EXPECT_EQ(row->fold.run, nullptr);
    EXPECT_EQ(row->script[0], nullptr);
    EXPECT_EQ(row->grown_list, nullptr);
    EXPECT_FALSE(row->takes_nested);
    EXPECT_EQ(find_row(row->op.substr(0, row->op.find('.')), row->op.substr(row->op.find('.') + 1)),
              row);
  }
}

TEST(Rows, OverloadsOfOneOpAgree) {
  for (const Row* row : every_row()) {
    if (!is_of_overload(*row)) continue;
    const Row* all = row_named(row->op.substr(0, row->op.find('.')));
    if (all == nullptr || all->run == nullptr) continue;
    EXPECT_EQ(row->complex.rule, all->complex.rule) << row->op;
    // With two tensors, max and min are elementwise; with one they reduce.
    const bool reduces = all->op == "aten::max" || all->op == "aten::min";
    EXPECT_EQ(row->layout,
              reduces && row->op.ends_with(".other") ? ResultLayout::elementwise : all->layout)
        << row->op;
  }
}

TEST(Rows, WhatIsAskedOfARowIsFound) {
  EXPECT_EQ(find_row("aten::max", "dim"), row_named("aten::max.dim"));
  EXPECT_EQ(find_row("aten::max", "other_name"), row_named("aten::max"));
  EXPECT_EQ(find_row("aten::len", "t"), nullptr);  // has no tensor code
  EXPECT_EQ(find_row("aten::no_such_op", ""), nullptr);
  EXPECT_EQ(row_named("aten::no_such_op"), nullptr);
  const Row* add = row_named("aten::add");
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(add->complex.rule, OnComplex::parts);
  EXPECT_EQ(add->layout, ResultLayout::elementwise);  // from its table
  EXPECT_EQ(add->fold.run, fold::arithmetic);
  EXPECT_EQ(row_named("aten::rot90")->layout, ResultLayout::unknown);  // overrides its table
  EXPECT_EQ(row_named("aten::rot90")->complex.rule, OnComplex::parts);
  EXPECT_EQ(row_named("aten::as_strided")->complex.rule, OnComplex::refused);
}

TEST(Rows, TheListOfOpsHasComplexOnesToo) {
  const std::vector<std::string> all = all_rows();
  const std::set<std::string> names(all.begin(), all.end());
  EXPECT_EQ(names.size(), all.size());
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  for (const char* name : {"aten::add", "complex::abs", "complex::imag", "aten::max.dim"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const char* name : {"aten::len", "aten::imag", "prim::min", "complex::add"})
    EXPECT_FALSE(names.contains(name)) << name;
}

// Collects names of aten ops in the sources: complete strings "aten::x".
TEST(Rows, NamesInTheSourcesAreRows) {
  // Ops that the loaders replace or drop, and an op that only exists in place.
  const std::set<std::string> kNone = {
      "aten::_assert_scalar",
      "aten::_functional_assert_async",
      "aten::sym_constrain_range",
      "aten::_linalg_check_errors",
      "aten::_local_scalar_dense",
      "aten::promote_types",
      "aten::resize_",
      "aten::dequantize",
      "aten::quantize_per_",
      "aten::quantize_per_channel",
      "aten::quantize_per_tensor",
      "aten::quantize_per_tensor_dynamic",
      "aten::quantized_gru",
      "aten::quantized_lstm",
      "aten::q_scale",
      "aten::q_zero_point",
      "aten::int_repr",
  };
  int found = 0;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(fs::path(HG_SOURCE_DIR) / "converter")) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      line = line.substr(0, line.find("//"));
      for (size_t at = 0; (at = line.find("\"aten::", at)) != line.npos; ++at) {
        const size_t end = line.find('"', at + 1);
        const std::string name = line.substr(at + 1, end - at - 1);
        if (name.size() == 6 || name.ends_with("aten::__") || name == "aten::__i" ||
            name == "aten::sym_" || name == "aten::unsafe_" || kNone.contains(name))
          continue;  // a prefix of names
        ++found;
        const std::string kind = name.substr(0, name.find('.'));
        std::vector<std::string> forms = {name, kind};
        if (kind.ends_with("_")) forms.push_back(kind.substr(0, kind.size() - 1));
        if (kind.ends_with("_copy")) forms.push_back(kind.substr(0, kind.size() - 5));
        bool known = false;
        for (const std::string& form : forms) known |= row_named(form) != nullptr;
        EXPECT_TRUE(known) << name << " in " << entry.path();
      }
    }
  }
  EXPECT_GT(found, 1000);
}

}  // namespace
}  // namespace hg::convert
