// SPDX-License-Identifier: Apache-2.0
// How a program reads its command line.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "tools/cli.h"

namespace hg::tools {

// The exit code that ends main: after --help and --version, which it prints, or a mistake, which it
// tells as finish() does. Nothing where the program goes on.
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
