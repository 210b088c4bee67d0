#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""words.py [FOLDER...]: prose in the covered folders uses none of the phrases below, which are not American technical English.

Prose is Markdown and reStructuredText without code, comments and docstrings, and string literals outside tests. Each finding is
printed as FILE:LINE with the better wording. To cover another folder, bring it to zero and add it to COVERED.
"""
import io
import pathlib
import re
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parents[2]
COVERED = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "bench", "cmake", "converter", "docs", "kernels", "lib", "packaging", "python",
           "samples", "schema/README.md", "scripts", "shaders", "tests", "tools"]  # fmt: skip

# American spelling: -ise becomes -ize in these verbs and their nouns.
VERBS = ("canonical characteri disc equal factor functional general initial linear maxim minim normal optim organi orthogonal parallel "
         "quant real recogn regular serial special stabil standard summar symmetr synchron util vector").split()  # fmt: skip
PHRASES = [
    (rf"\b(?:un|de|re)?(?:{'|'.join(VERBS)})is(?:e[sdr]?|ers?|ing|ations?)\b", "American spelling: -ize"),
    (r"\bneighbour", "neighbor"),
    (r"\bbehaviour", "behavior"),
    (r"\bcolour", "color"),
    (r"\bbarycentre", "barycenter"),
    (r"\blicence", "license"),
    (r"\binside of\b", "inside"),
    (r"\bheld against\b", "compared with, or checked against"),
    (r"\bholds? \w+ (?:\w+ )?against\b", "compares with, or checks against"),
    (r"\bsuch as have\b", "name the thing"),
    (r"\bone's own\b|\bof ones own\b", "custom, or its own"),
    (r"\bas people\b", "typical"),
    (r"\b(?:are|is) there for\b", "say what it does"),
    (r", too\b", "also, once"),
    (r"\bwhat (?:it|they|that) gives?\b", "its result, or its output"),
    (r"\bwhere there (?:is|are) (?:one|none)\b", "if there is one"),
    (r"\bby the bit\b", "bit by bit, or with the same bits"),
    (r"\bmend(?:s|ed|ing)?\b", "fix; histories belong in the CHANGELOG"),
    (r"\bthe ways? (?:not )?taken\b", "the branch taken"),
    (r"[\u2018\u2019\u201c\u201d]", "straight ASCII quotes"),
]
ANY = re.compile("|".join(f"({pattern})" for pattern, _ in PHRASES), re.I)
C = re.compile(r'R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*(?:.|\n)*?\*/')
MARKUP_CODE = re.compile(r"^```.*?^```|^    [^\n]*|``?[^`\n]+``?|\]\([^)]*\)|:\w+:`[^`]*`", re.M | re.S)
SHELL = re.compile(r'(?:^|\s)#[^\n]*|"[^"\n]*"', re.M)
IDENTIFIER = re.compile(r"`[^`\n]*`|[\w/.:-]*(?:_|::|\.\w|/)[\w/.:-]*|\b\w+\(")  # and names of files


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def prose(path, text):
    """(offset, text) of each piece of prose."""
    in_tests = "tests" in path.parts
    if path.suffix in (".md", ".rst"):
        yield 0, MARKUP_CODE.sub(lambda m: blank(m[0]), text)
    elif path.suffix in (".cpp", ".h", ".c", ".inc", ".comp", ".glsl", ".js", ".rs"):
        yield from ((m.start(), m[0]) for m in C.finditer(text) if m[0].startswith("/") or not in_tests)
    elif path.suffix == ".py" or text.startswith("#!/usr/bin/env python3"):
        starts = [0]
        for line in text.splitlines(True):
            starts.append(starts[-1] + len(line))
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and (not in_tests or token.string.startswith('"""'))):
                yield starts[token.start[0] - 1] + token.start[1], token.string
    elif path.suffix in (".cmake", ".sh", ".in") or path.name == "CMakeLists.txt" or text.startswith("#!"):
        yield from ((m.start(), m[0]) for m in SHELL.finditer(text) if not in_tests or m[0].lstrip().startswith("#"))


def findings(path):
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    for offset, piece in prose(path, text):
        for found in ANY.finditer(IDENTIFIER.sub(lambda m: blank(m[0]), piece)):
            line = text.count("\n", 0, offset + found.start()) + 1
            yield f"{path.relative_to(ROOT)}:{line}: '{found[0]}': {PHRASES[found.lastindex - 1][1]}"


def main():
    this = pathlib.Path(__file__).resolve()
    count, errors = 0, []
    for name in sys.argv[1:] or COVERED:
        place = ROOT / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file() and path != this and "__pycache__" not in path.parts:
                count += 1
                errors += findings(path)
    print("\n".join(errors) or f"{count} files use none of {len(PHRASES)} phrases")
    return 1 if errors or not count else 0


if __name__ == "__main__":
    sys.exit(main())
