// SPDX-License-Identifier: Apache-2.0
// Internals of check_model: one check of one model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "converter/check/check.h"
#include "converter/check/check_inputs.h"
#include "converter/check/coverage.h"
#include "converter/check/search.h"

namespace hg::convert {

class Checker {
 public:
  Checker(const Loaded& loaded, const Graph& graph, const std::function<const Model&()>& written,
          std::span<const Executed> trace, const Job& job,
          const std::function<void(const std::string&)>& progress);
  CheckResult run();

  // Limit of loop iterations in one run, for values and sizes that the user did not request, which
  // may make a loop endless.
  static constexpr int64_t kMostRounds = 2000;

 private:
  // libtorch's results for one binding of the sizes.
  struct Reference {
    Binding sizes;
    std::string values;  // how the inputs differ from the default
    Inputs inputs;
    std::vector<TensorData> expected, again;  // again: with another seed, if results may vary
    bool known = false;                       // libtorch accepted the inputs
  };

  void fail(Exit exit, std::string message);
  void warn(std::string line);

  // check.cpp: the cases, and libtorch's part in them
  std::vector<TensorData> libtorch(const Inputs& inputs, uint64_t seed,
                                   int64_t most_rounds = 0) const;
  bool find_inputs(Binding& sizes, Inputs& inputs, std::vector<TensorData>& expected,
                   const std::optional<Binding>& earlier);
  Reference run_libtorch(const Binding& sizes, const std::optional<Binding>& earlier);
  bool is_program_refusal(const ReferenceFailure& failure) const;
  bool repeats_case(const Binding& sizes, const Binding& first) const;
  bool is_only_size(const Binding& first);
  void warn_of_only_size(const Binding& size);
  void check_case(Session& session, Reference& reference, size_t k);
  bool find_accepted(Session& session, Reference& reference, const Status& status);
  void warn_of_refused_values(const Status& status, const Binding& sizes, const std::string& values,
                              const Inputs& inputs);
  void check_second_run(Session& session, const Inputs& inputs, CheckedCase& report,
                        const std::string& with);
  void report_refusal(const Inputs& inputs, const Binding& sizes, size_t k, const Status& status);
  void expect_elements();

  // drawn.cpp: integers that the check chooses
  bool draws_integers(size_t input) const;
  std::string describe_draw(const Draw& draw) const;
  std::string range_option(size_t i, const std::pair<int64_t, int64_t>& limits) const;
  void note_drawn(const Inputs& inputs);
  void say_drawn();
  std::string other_numbers(const Inputs& inputs) const;

  // check_outputs.cpp: compares both runs
  static Status run(Session& session, const Inputs& inputs);
  std::vector<CheckedOutput> check_outputs(const Session& session, const Inputs& inputs,
                                           const std::vector<TensorData>& expected,
                                           const std::vector<TensorData>& again);
  CheckedOutput check_output(const Session& session, int index, const TensorData& expected,
                             const TensorData* again);
  void explain(const Session& session, std::vector<CheckedOutput>& outputs, const Inputs& inputs,
               const std::vector<TensorData>& expected, const std::string& with);

  // exercise.cpp: branches that the cases did not take
  void exercise(Session& checked);
  struct Trying;
  void try_one(Trying& trying, const Binding& sizes, const Search& search, int number);
  bool try_inputs(Trying& trying, const Binding& sizes, const Search& search, int number,
                  const Draw* integers);

  const Loaded& loaded_;
  const Graph& graph_;
  std::vector<InputSpec> specs_;
  const std::function<const Model&()>& written_;
  const Model* model_ = nullptr;
  std::vector<DType> precisions_;  // of the outputs
  std::span<const Executed> trace_;
  const Job& job_;
  const std::function<void(const std::string&)>& progress_;
  bool varies_, uninitialised_, has_loops_;
  ReferenceFailure refusal_;
  Draw draw_;                                                      // libtorch accepted it last
  std::vector<std::optional<std::pair<int64_t, int64_t>>> drawn_;  // by input: compared integers
  std::string refused_numbers_;       // why libtorch accepts fewer integers than were tried
  bool has_refused_values_ = false;   // by the converted model; already reported
  bool only_program_refuses_ = true;  // for the sizes tried for the last case
  Coverage coverage_;
  CheckResult result_;
};

}  // namespace hg::convert
