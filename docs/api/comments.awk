# SPDX-License-Identifier: Apache-2.0
# Doxygen's filter for the public headers, whose comments are plain ones: a comment before a declaration becomes `///`,
# one behind it `///<`, and the one at the top describes the file. A comment before an empty line is a heading of the
# code and stays as it is, and so does one inside a function.

function flush_as(mark, i) {
  for (i = 0; i < held; ++i) {
    if (mark != "") sub(/\/\/ ?/, mark " ", lines[i])
    print lines[i]
  }
  held = 0
}

FNR == 1 { held = 0; top = 1; is_c = FILENAME ~ /\/c\.h$/ }

# C's comments, which may span lines.
is_c {
  if (FNR == 1) { print "/** \\file"; next }
  if ($0 !~ /\/\* --/) {
    if (!sub(/^ *\/\* /, "/** ")) sub(/ \/\* /, " /**< ")
  }
  print
  next
}

FNR == 1 { print; next }

top && /^\/\// {
  if (FNR == 2) print "/// \\file"
  sub(/^\/\/ ?/, "/// ")
  print
  next
}
{ top = 0 }

/^ *\/\/( |$)/ { lines[held++] = $0; next }
/^ *$/ { flush_as("") }
{
  flush_as(inside ? "" : "///")
  # Functions have bodies of their own; what is inside ends with the line that closes them.
  if (!inside && /\{$/ && !/^ *(template.*)?(typedef )?(class|struct|enum|union|namespace|extern)[^()]*\{$/ && !/= *\{$/) {
    inside = 1
    match($0, /^ */)
    indent = RLENGTH
  } else if (inside && match($0, /^ *\}/) && RLENGTH - 1 <= indent) {
    inside = 0
  } else if (!inside && !/^ *\}/ && !/^(class|struct) [A-Za-z_]*;/) {
    sub(/  \/\/ /, "  ///< ")
  }
  print
}
END { flush_as("") }
