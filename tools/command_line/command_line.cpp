// SPDX-License-Identifier: Apache-2.0
// The command line of a program, parsed with CLI11.
#include "tools/command_line/command_line.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <limits>
#include <sstream>
#include <type_traits>
#include <utility>

namespace hg::tools {
namespace {

CLI::Option* of(void* option) { return static_cast<CLI::Option*>(option); }

bool is_whole(const std::string& word, int64_t& value) {
  const char* const end = word.data() + word.size();
  const auto [read_to, error] = std::from_chars(word.data(), end, value);
  return error == std::errc() && read_to == end;
}

template <class T>
constexpr bool is_vector = false;
template <class T>
constexpr bool is_vector<std::vector<T>> = true;

// Why a word is not a T; empty if it is one. CLI11 reads -1 as the largest unsigned number.
template <class T>
std::string not_a_number(const std::string& word) {
  T value{};
  if (CLI::detail::lexical_cast(word, value) && !(std::is_unsigned_v<T> && word[0] == '-'))
    return {};
  if constexpr (std::is_floating_point_v<T>) return str_cat(word, " is not a number");
  using Limits = std::numeric_limits<T>;
  return str_cat(word, " is not a whole number from ", std::to_string(Limits::min()), " to ",
                 std::to_string(Limits::max()));
}

// The sentence for an option that is given more often than it may be; empty if there is none.
std::string given_too_often(const CLI::App& app) {
  for (const CLI::Option* const option : app.get_options())
    if (option->get_expected_max() == 1 && option->count() > 1)
      return str_cat(option->get_name(), " is given ", uint64_t{option->count()},
                     " times; give it once");
  return {};
}

}  // namespace

struct CommandLine::Parser {
  CLI::App app;
};

CommandLine::Option& CommandLine::Option::shows_default() {
  of(option_)->capture_default_str();
  return *this;
}

CommandLine::Option& CommandLine::Option::shows_default(std::string value) {
  of(option_)->default_str(std::move(value));
  return *this;
}

CommandLine::Option& CommandLine::Option::is_required() {
  of(option_)->required();
  return *this;
}

CommandLine::Option& CommandLine::Option::is_at_least(int64_t least) {
  static constexpr int64_t kMost = 1'000'000'000'000;
  of(option_)->check(CLI::Validator(
      [least](std::string& word) {
        int64_t value = 0;
        if (is_whole(word, value) && value >= least && value <= kMost) return std::string();
        return str_cat(word, " is not a whole number from ", least, " to ", kMost);
      },
      ""));
  return *this;
}

CommandLine::Option& CommandLine::Option::is_between(double low, double high) {
  of(option_)->check(CLI::Range(low, high));
  return *this;
}

CommandLine::Option& CommandLine::Option::is_one_of(std::vector<std::string> words) {
  of(option_)->check(CLI::IsMember(std::move(words)));
  return *this;
}

CommandLine::Option& CommandLine::Option::is_list(int count) {
  of(option_)->delimiter(',');
  if (count > 0) of(option_)->allow_extra_args(true)->expected(count);
  return *this;
}

CommandLine::Option& CommandLine::Option::is_taken_in_order() {
  of(option_)->trigger_on_parse();
  return *this;
}

CommandLine::Option& CommandLine::Option::excludes(Option other) {
  of(option_)->excludes(of(other.option_));
  return *this;
}

CommandLine::Option& CommandLine::Option::needs(Option other) {
  of(option_)->needs(of(other.option_));
  return *this;
}

bool CommandLine::Option::is_given() const { return of(option_)->count() > 0; }

CommandLine::CommandLine(std::string program, std::string about, std::string examples,
                         std::function<std::string()> version)
    : parser_(new Parser{CLI::App(std::move(about), std::move(program))}) {
  parser_->app.footer(std::move(examples));
  parser_->app.set_version_flag("--version", std::move(version));
}

CommandLine::CommandLine(std::string program, std::string about, std::string examples)
    : CommandLine(program, std::move(about), std::move(examples),
                  [program] { return version_text(program); }) {}

CommandLine::~CommandLine() = default;

template <class T>
CommandLine::Option CommandLine::add(const std::string& names, T& value, const std::string& about) {
  CLI::Option* const option = parser_->app.add_option(names, value, about);
  if constexpr (is_vector<T>) option->allow_extra_args(false);
  if constexpr (std::is_arithmetic_v<T>) option->check(CLI::Validator(not_a_number<T>, ""));
  return Option(option);
}

template CommandLine::Option CommandLine::add(const std::string&, std::string&, const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, int&, const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, int64_t&, const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, uint64_t&, const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, float&, const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, double&, const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, std::optional<double>&,
                                              const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, std::vector<std::string>&,
                                              const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, std::vector<double>&,
                                              const std::string&);

CommandLine::Option CommandLine::add(const std::string& names,
                                     std::function<Outcome(const std::string& word)> take,
                                     const std::string& about) {
  return Option(parser_->app.add_option_function<std::string>(
      names,
      [names, take = std::move(take)](const std::string& word) {
        if (const Outcome taken = take(word); !taken.ok())
          throw CLI::ValidationError(names, taken.message);
      },
      about));
}

CommandLine::Option CommandLine::add_samples_or_all(const std::string& names, int64_t& value,
                                                    const std::string& about) {
  Option added = add(
      names,
      [&value](const std::string& word) {
        int64_t count = 0;
        if (word != "all" && !(is_whole(word, count) && count > 0))
          return usage(word, " is neither a number of samples nor 'all'");
        value = count;
        return Outcome();
      },
      about);
  return added.shows_default(std::to_string(value));
}

CommandLine::Option CommandLine::add_flag(const std::string& names, bool& value,
                                          const std::string& about) {
  return Option(parser_->app.add_flag(names, value, about));
}

CommandLine::Option CommandLine::add_flag_with_value(const std::string& name, std::string& value,
                                                     const std::string& about) {
  return Option(parser_->app.add_flag(name + "{}", value, about));
}

Outcome CommandLine::read(int argc, const char* const* argv, std::string& said) {
  CLI::App& app = parser_->app;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    std::ostringstream out;
    app.exit(success, out, out);
    said = out.str();
    // CLI11's form of a flag with a value, in the same columns.
    const size_t at = said.find("{}     ");
    if (at != std::string::npos) said.replace(at, 7, "[=TEXT]");
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string too_often = given_too_often(app);
    return usage(too_often.empty() ? error.what() : too_often, "; see ", app.get_name(), " --help");
  } catch (const CLI::ParseError& error) {
    return usage(error.what(), "; see ", app.get_name(), " --help");
  }
  return {};
}

std::optional<int> CommandLine::parse(int argc, char** argv) {
  std::string said;
  const Outcome outcome = read(argc, argv, said);
  if (!outcome.ok()) return finish(parser_->app.get_name(), outcome);
  if (said.empty()) return std::nullopt;
  std::fputs(said.c_str(), stdout);
  return static_cast<int>(Exit::ok);
}

}  // namespace hg::tools
