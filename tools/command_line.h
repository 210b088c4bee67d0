// SPDX-License-Identifier: Apache-2.0
// Parses a tool's command line.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "tools/cli.h"

namespace hg::tools {

// Returns the exit code that ends main: after printing --help or --version, or after reporting an
// error like finish(). Returns nullopt if the program should continue.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return finish(app.get_name(), usage(error.what(), "; see ", app.get_name(), " --help"));
  }
}

}  // namespace hg::tools
