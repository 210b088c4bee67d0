// SPDX-License-Identifier: Apache-2.0
// The command line of a program: each option is read into a variable. CLI11 does the work, but its
// header takes as long to compile as a tool; only command_line.cpp includes it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli.h"

namespace hg::tools {

class CommandLine {
 public:
  // An option that was added. Belongs to its CommandLine.
  class Option {
   public:
    Option& shows_default();                   // what the variable holds, in --help
    Option& shows_default(std::string value);  // instead of it
    Option& is_required();
    Option& is_at_least(int64_t least);  // and at most 10^12
    Option& is_between(double low, double high);
    Option& is_one_of(std::vector<std::string> words);
    Option& is_list(int count = 0);  // values with commas between them; 0: one or more
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
  // optional number, or a vector of them, which takes one value each time the option is given (but
  // see is_list()). `value` must outlive read().
  template <class T>
  Option add(const std::string& names, T& value, const std::string& about);
  // An option that `take` reads. An Outcome that is not ok is an error in the option's value.
  Option add(const std::string& names, std::function<Outcome(const std::string& word)> take,
             const std::string& about);
  // A number of samples from 1 on, or "all", which sets 0. --help shows the value as the default.
  Option add_samples_or_all(const std::string& names, int64_t& value, const std::string& about);
  Option add_flag(const std::string& names, bool& value, const std::string& about);
  // May be given as --name or --name=VALUE.
  Option add_flag_with_value(const std::string& name, std::string& value, const std::string& about);

  // Reads the arguments. Sets `said` to what --help or --version prints. Not ok: usage, with a hint
  // at --help.
  Outcome read(int argc, const char* const* argv, std::string& said);
  // The same for main: prints, and returns the exit code that ends the program, or nullopt if it
  // should continue.
  std::optional<int> parse(int argc, char** argv);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace hg::tools
