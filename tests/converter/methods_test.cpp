// SPDX-License-Identifier: Apache-2.0
// Random modules from make_methods.py: hg-convert makes their methods entries of one file, and
// sessions that share states are called in the same order as in libtorch. HG_METHODS selects
// another folder of modules.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "hg/hg.h"
#include "hg/shared_states.h"
#include "tests/support/must.h"

namespace hg {
namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<double>;

struct Case {
  std::string file, kind, size;
  std::vector<std::string> states;
  std::map<std::string, int> methods;  // number of inputs by method
};

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, by);) parts.push_back(part);
  return parts;
}

std::vector<Case> read_cases(const fs::path& folder) {
  std::vector<Case> cases;
  std::ifstream file(folder / "cases.txt");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = split(line, '\t');
    Case one{fields.at(0), fields.at(1), fields.at(2), split(fields.at(3), ','), {}};
    for (size_t i = 4; i < fields.size(); ++i)
      one.methods[split(fields[i], '/').at(0)] = std::stoi(split(fields[i], '/').at(1));
    cases.push_back(std::move(one));
  }
  return cases;
}

void write_jobs(const fs::path& folder, const std::vector<Case>& cases) {
  std::ofstream jobs(folder / "jobs.json");
  for (size_t i = 0; i < cases.size(); ++i) {
    const fs::path out = folder / ("out_" + std::to_string(i));
    fs::create_directories(out);
    fs::remove(out / "model.hgm");
    jobs << (i == 0 ? "[" : ",\n") << "{\"model\": \"" << (folder / cases[i].file).string()
         << "\", \"output_dir\": \"" << out.string() << "\", \"methods\": [";
    const char* comma = "";
    for (const auto& [name, inputs] : cases[i].methods)
      jobs << std::exchange(comma, ", ") << '"' << name << '"';
    jobs << "], \"inputs\": [";
    comma = "";
    for (const auto& [name, inputs] : cases[i].methods)
      for (int k = 0; k < inputs; ++k)
        jobs << std::exchange(comma, ", ") << '"' << name << "/x" << k << ":f32[" << cases[i].size
             << "]\"";
    jobs << "]}";
  }
  jobs << "]\n";
}

Numbers read_numbers(std::istream& from) {
  size_t count = 0;
  from >> count;
  Numbers all;
  for (std::string word; all.size() < count && from >> word;)
    all.push_back(std::strtod(word.c_str(), nullptr));
  return all;
}

Numbers numbers_of(const Tensor& tensor) {
  Numbers all;
  for (int64_t i = 0; i < tensor.count(); ++i)
    all.push_back(tensor.dtype == i64 ? static_cast<double>(tensor.as<int64_t>()[i])
                                      : double{tensor.as<float>()[i]});
  return all;
}

void expect_near(const Numbers& got, const Numbers& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(std::abs(got[i] - want[i]) <= 1e-4 * (1 + std::abs(want[i])))
        << what << "[" << i << "] is " << got[i] << ", not " << want[i];
}

void run_calls(const fs::path& folder, const Case& one, const std::string& file) {
  const Model model = must(Model::load(file));
  const auto states = must(SharedStates::create(model));
  std::map<std::string, Session> sessions;
  for (const auto& [name, inputs] : one.methods)
    sessions.emplace(name, must(Session::create(model, {.entry = name, .states = states})));
  std::ifstream calls(folder / fs::path(one.file).replace_extension(".calls"));
  int number = 0;
  for (std::string line; std::getline(calls, line); ++number) {
    std::stringstream call(line);
    std::string name;
    int inputs = 0, outputs = 0, kept = 0;
    call >> name >> inputs >> outputs >> kept;
    const std::string what = "call " + std::to_string(number) + " of " + name;
    Session& session = sessions.at(name);
    std::vector<std::vector<float>> given;
    for (int i = 0; i < inputs; ++i) {
      const Numbers all = read_numbers(call);
      given.emplace_back(all.begin(), all.end());
    }
    for (int i = 0; i < session.input_count(); ++i) {
      const std::vector<float>& x = given.at(static_cast<size_t>(i));
      ASSERT_TRUE(session.set_input(i, view(x, {static_cast<int64_t>(x.size())})).ok());
    }
    must(session.run());
    ASSERT_EQ(session.output_count(), outputs) << what;
    for (int i = 0; i < outputs; ++i)
      expect_near(numbers_of(must(session.output(i))), read_numbers(call), what);
    const std::vector<std::string> names = states->names();
    for (int i = 0; i < kept; ++i) {
      const Numbers want = read_numbers(call);
      const std::string& state = one.states.at(static_cast<size_t>(i));
      if (std::find(names.begin(), names.end(), state) != names.end())
        expect_near(numbers_of(must(states->value(state))), want, what + ": " + state);
    }
  }
  EXPECT_EQ(number, 12);
}

TEST(Methods, InRandomOrderLeaveTheStatesOfLibtorch) {
  const char* const other = std::getenv("HG_METHODS");
  const fs::path folder = other != nullptr ? other : HG_TEST_METHODS;
  const std::vector<Case> cases = read_cases(folder);
  if (cases.empty()) GTEST_SKIP() << "no Python with torch";
  write_jobs(folder, cases);
  const std::string command = std::string("'") + HG_CONVERT_TOOL + "' --batch '" +
                              (folder / "jobs.json").string() + "' > '" +
                              (folder / "answers.txt").string() + "'";
  ASSERT_TRUE(WIFEXITED(std::system(command.c_str()))) << command;
  std::ifstream answers(folder / "answers.txt");
  size_t converted = 0, refused = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].file);
    std::string answer;
    ASSERT_TRUE(std::getline(answers, answer)) << "hg-convert ends";
    if (answer.find("\"ok\"") != std::string::npos) {
      EXPECT_EQ(cases[i].kind, "keeps") << "an attribute that a method sets is frozen";
      run_calls(folder, cases[i], (folder / ("out_" + std::to_string(i)) / "model.hgm").string());
      ++converted;
      continue;
    }
    EXPECT_NE(answer.find("\"unsupported\""), std::string::npos) << answer;
    if (cases[i].kind == "keeps") std::printf("%s: %s\n", cases[i].file.c_str(), answer.c_str());
    ++refused;
  }
  std::printf("%zu programs converted, %zu refused\n", converted, refused);
  EXPECT_GT(converted, cases.size() / 2);
}

}  // namespace
}  // namespace hg
