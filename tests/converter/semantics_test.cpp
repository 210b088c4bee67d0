// SPDX-License-Identifier: Apache-2.0
// Typical modules from make_semantics.py: each is converted, and thereby compared with libtorch at
// two sizes, or rejected by name.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Case {
  std::string file, exit, words, sizes;
  std::vector<std::string> inputs, constants;
};

std::vector<Case> read_cases(const fs::path& folder) {
  std::vector<Case> cases;
  std::ifstream file(folder / "cases.txt");
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> fields(1);
    for (const char c : line)
      if (c == '\t')
        fields.emplace_back();
      else
        fields.back().push_back(c);
    Case& each =
        cases.emplace_back(Case{fields.at(0), fields.at(1), fields.at(2), fields.at(3), {}, {}});
    for (size_t i = 4; i < fields.size(); ++i)
      if (fields[i].starts_with("="))
        each.constants.push_back(fields[i].substr(1));
      else
        each.inputs.push_back(fields[i]);
  }
  return cases;
}

TEST(Semantics, EveryModuleConvertsOrIsRefused) {
  const fs::path folder = HG_TEST_SEMANTICS;
  const std::vector<Case> cases = read_cases(folder);
  if (cases.empty()) GTEST_SKIP() << "no Python with torch";
  std::ofstream jobs(folder / "jobs.json");
  for (size_t i = 0; i < cases.size(); ++i) {
    const fs::path out = folder / ("out_" + std::to_string(i));
    fs::create_directories(out);
    jobs << (i == 0 ? "[" : ",\n") << "{\"model\": \"" << (folder / cases[i].file).string()
         << "\", \"output_dir\": \"" << out.string() << "\", \"inputs\": [";
    for (size_t k = 0; k < cases[i].inputs.size(); ++k)
      jobs << (k == 0 ? "\"" : ", \"") << cases[i].inputs[k] << "\"";
    jobs << "], \"constants\": {";
    for (size_t k = 0; k < cases[i].constants.size(); ++k) {
      const std::string& constant = cases[i].constants[k];
      const size_t equals = constant.find('=');
      jobs << (k == 0 ? "\"" : ", \"") << constant.substr(0, equals) << "\": \""
           << constant.substr(equals + 1) << "\"";
    }
    jobs << "}";
    if (!cases[i].sizes.empty()) jobs << ", \"check_sizes\": {\"n\": [" << cases[i].sizes << "]}";
    jobs << "}";
  }
  jobs << "]\n";
  jobs.close();
  const std::string command = std::string("'") + HG_CONVERT_TOOL + "' --batch '" +
                              (folder / "jobs.json").string() + "' > '" +
                              (folder / "answers.txt").string() + "'";
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status)) << command;
  std::ifstream answers(folder / "answers.txt");
  for (const Case& each : cases) {
    std::string answer;
    ASSERT_TRUE(std::getline(answers, answer)) << each.file << " ends hg-convert";
    const std::string wanted = each.exit == "0"   ? "\"ok\""
                               : each.exit == "1" ? "\"usage\""
                               : each.exit == "4" ? "\"mismatch\""
                                                  : "\"unsupported\"";
    EXPECT_NE(answer.find(wanted), std::string::npos)
        << each.file << " is not " << wanted << ": " << answer;
    EXPECT_NE(answer.find(each.words), std::string::npos)
        << each.file << " lacks '" << each.words << "': " << answer;
  }
}

}  // namespace
