# SPDX-License-Identifier: Apache-2.0
# HG_STEMS: the families of ops. Each folder of tables has one file per stem with its rows for that family: lib/ops,
# kernels, kernels/reference, tests/samples, converter/aten.
set(HG_STEMS
  pointwise
  pointwise_program
  expression
  unary
  binary
  compare
  activation
  special
  reduce
  scan
  sort
  search
  trees
  movement
  copy
  complex
  scatter_view
  factory
  index
  scatter
  matmul
  grouped_mm
  integer
  low_bits
  linalg
  determinant
  eig
  fft
  gradient
  statistics
  conv
  conv_channels_last
  pool
  image
  detection
  norm
  norm_grad
  attention
  rope
  rnn
  rnn_grad
  random
  control
  composite
  loss
  ctc_loss
  optimizer
)

# hg_table(TARGET KIND FOLDERS STEM...): compiles STEM.cpp of one of FOLDERS into TARGET, for the given
# stems, which only these folders have, and then for those of HG_STEMS that they have a file of. Writes
# a row HG_TABLE(STEM) for each to hg_KIND_table.inc, which the registry of that kind includes. A file
# whose stem is not listed is not compiled, so nothing is half registered, and the linker can drop no row. Those of
# HG_EXCLUDED_STEMS are left out.
function(hg_table target kind folders)
  set(rows "")
  foreach(stem IN LISTS ARGN HG_STEMS)
    if(stem IN_LIST HG_EXCLUDED_STEMS)
      continue()
    endif()
    unset(file)
    foreach(folder IN LISTS folders)
      if(EXISTS ${PROJECT_SOURCE_DIR}/${folder}/${stem}.cpp)
        set(file ${PROJECT_SOURCE_DIR}/${folder}/${stem}.cpp)
      endif()
    endforeach()
    if(file)
      target_sources(${target} PRIVATE ${file})
      string(APPEND rows "HG_TABLE(${stem})\n")
    elseif(stem IN_LIST ARGN)
      message(FATAL_ERROR "${stem}.cpp is in none of: ${folders}")
    endif()
  endforeach()
  set(generated ${PROJECT_BINARY_DIR}/generated)
  file(GENERATE OUTPUT ${generated}/hg_${kind}_table.inc CONTENT "${rows}")
  target_include_directories(${target} PRIVATE ${generated})
endfunction()
