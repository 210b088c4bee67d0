// SPDX-License-Identifier: Apache-2.0
// Windows of convolutions and pooling: kernel, strides, dilations, and the padding from pads and
// auto_pad.
#pragma once

#include "converter/onnx/node.h"

namespace hg::convert::onnx {

struct Windows {
  Dims kernel, strides, dilations;
  Dims begin, end;  // padding of each spatial axis
  Dims out;         // sizes of the result

  int count() const { return static_cast<int>(kernel.size()); }
  Dim reach(int d) const;  // elements from the first to the last of a window
  bool is_symmetric() const { return begin == end; }
  bool is_dilated() const;
  // Returns [begin, end] for each dim of [n, c, spatial...].
  Dims pads() const;
};

// Returns the windows for the node's attributes, an input [n, c, spatial...] and a kernel of these
// sizes.
Windows windows_of(Node& n, const Shape& x, Dims kernel);

}  // namespace hg::convert::onnx
