// SPDX-License-Identifier: Apache-2.0
// Parses the names of TorchScript types. A NamedTuple is written Tuple[a: Tensor, b: int].
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hg::convert {

// Returns the text inside "List[...]" if the type starts with `name`, in either of TorchScript's
// spellings.
std::optional<std::string> inside_of(std::string_view type, std::string_view name);

struct NamedType {
  std::string name;  // of a NamedTuple's field; otherwise empty
  std::string type;
};
// Splits "Tensor, Dict[str, Tensor]" at the commas outside brackets.
std::vector<NamedType> split_types(std::string_view types);

}  // namespace hg::convert
