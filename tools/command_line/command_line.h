// SPDX-License-Identifier: Apache-2.0
// The command line of a program: reads each option into a variable. Only command_line.cpp includes
// CLI11, because its header takes as long to compile as a tool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/command_line/cli.h"

namespace hg::tools {

class CommandLine {
 public:
  // An option of a CommandLine, which owns it.
  class Option {
   public:
    Option& shows_default();                   // shows the variable's value in --help
    Option& shows_default(std::string value);  // shows this value instead
    Option& is_required();
    Option& is_at_least(int64_t least);  // and at most 10^12
    Option& is_between(double low, double high);
    Option& is_one_of(std::vector<std::string> words);
    Option& is_list(int count = 0);  // comma-separated values; 0: one or more
    // Calls `take` each time the option is given, in the order of the command line.
    Option& is_taken_in_order();
    Option& excludes(Option other);
    Option& needs(Option other);
    bool is_given() const;

   private:
    friend class CommandLine;
    explicit Option(void* option) : option_(option) {}
    void* option_;  // CLI::Option
  };

  // --help prints `about`, the options and `examples`. --version prints `version`.
  CommandLine(std::string program, std::string about, std::string examples,
              std::function<std::string()> version);
  // --version prints version_text(program).
  CommandLine(std::string program, std::string about, std::string examples);
  ~CommandLine();

  // Names are "MODEL" for an argument without a name, or "--input,-i". T: std::string, a number, an
  // optional number, or a vector of them, which receives one value each time the option is given
  // (see also is_list()). `value` must outlive read().
  template <class T>
  Option add(const std::string& names, T& value, const std::string& about);
  // An option that `take` parses. An Outcome that is not ok is an error in the option's value.
  Option add(const std::string& names, std::function<Outcome(const std::string& word)> take,
             const std::string& about);
  // A number of samples, at least 1, or "all", which sets 0. --help shows the value as the default.
  Option add_samples_or_all(const std::string& names, int64_t& value, const std::string& about);
  Option add_flag(const std::string& names, bool& value, const std::string& about);
  // May be given as --name or --name=VALUE.
  Option add_flag_with_value(const std::string& name, std::string& value, const std::string& about);

  // Parses the arguments. Sets `said` to the text of --help or --version. If the command line is
  // wrong, returns usage with a hint at --help.
  Outcome read(int argc, const char* const* argv, std::string& said);
  // The same for main: prints the text. Returns the exit code that ends the program, or nullopt if
  // it should continue.
  std::optional<int> parse(int argc, char** argv);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace hg::tools
