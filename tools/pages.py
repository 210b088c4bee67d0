#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pages.py OUT PROGRAM ...: generates man pages and completions for bash, zsh and fish from each program's --help.

Writes OUT/man1/hg-run.1, OUT/bash/hg-run, OUT/zsh/_hg-run, OUT/fish/hg-run.fish. --help is the only list of options; a line
without the form of an option is an error.
"""
import pathlib
import re
import subprocess
import sys

OPTION = re.compile(r"^  (-[^ \[]+(?:,--?[^ \[]+)*)(?:\[=TEXT\])?((?: [A-Z][^ ]*)?)((?: \.\.\.)?)(?: +|$)(.*)$")


class Help:
    def __init__(self, program):
        self.name = pathlib.Path(program).name
        text = subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout
        self.version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]
        head, _, rest = text.partition("Options:\n")
        self.summary = head.splitlines()[0]
        self.usage = re.search(r"^Usage: (.*)$", head, re.M).group(1)
        positionals = re.search(r"^Positionals:\n((?:  .*\n)+)", head, re.M)
        self.positionals = [re.split(r" {2,}", line.strip(), maxsplit=1)
                            for line in (positionals.group(1).splitlines() if positionals else [])]
        options, _, self.footer = rest.partition("\n\n")
        self.options = []  # [names, takes a value, description]
        for line in options.splitlines():
            match = OPTION.match(line)
            if match and match.group(1):
                names = match.group(1).split(",")
                self.options.append([names, bool(match.group(2).strip()), match.group(4).strip()])
            elif self.options and line.startswith("   "):
                self.options[-1][2] = (self.options[-1][2] + " " + line.strip()).strip()
            else:
                raise SystemExit(f"{self.name} --help: no option has the form of '{line}'")
        if not self.options:
            raise SystemExit(f"{self.name} --help lists no options")


def roff(text):
    """Text for a man page, in which no line may look like a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in text.split("\n"))


def man_page(h):
    out = [f'.TH {h.name.upper()} 1 "" "Hologram {h.version}" "Hologram"', ".SH NAME",
           roff(f"{h.name} - {h.summary.rstrip('.')[:1].lower()}{h.summary.rstrip('.')[1:]}"), ".SH SYNOPSIS",
           f".B {roff(h.usage)}", ".SH DESCRIPTION", roff(h.summary)]
    for word, *text in h.positionals:
        out += [".TP", f".I {roff(word)}", roff(text[0] if text else "")]
    out += [".SH OPTIONS"]
    for names, takes_value, text in h.options:
        shown = ", ".join(names) + (" VALUE" if takes_value else "")
        out += [".TP", f".B {roff(shown)}", roff(text)]
    out += [".SH EXAMPLES AND EXIT CODES", ".nf", roff(h.footer.strip()), ".fi"]
    return "\n".join(out) + "\n"


def words(h):
    return " ".join(name for names, _, _ in h.options for name in names)


def bash(h):
    taking = "|".join(name for names, takes_value, _ in h.options for name in names if takes_value)
    function = "_" + h.name.replace("-", "_")
    values = f'    {taking}) COMPREPLY=($(compgen -f -- "$word")); return ;;\n' if taking else ""
    return (f"# Completion of {h.name} for bash.\n{function}() {{\n  local word=${{COMP_WORDS[COMP_CWORD]}}\n"
            f"  case ${{COMP_WORDS[COMP_CWORD-1]}} in\n    --device) COMPREPLY=($(compgen -W 'cpu vulkan auto' -- \"$word\")); return ;;\n"
            f"{values}  esac\n  if [[ $word == -* ]]; then\n    COMPREPLY=($(compgen -W '{words(h)}' -- \"$word\"))\n  else\n"
            f'    COMPREPLY=($(compgen -f -- "$word"))\n  fi\n}}\ncomplete -o filenames -F {function} {h.name}\n')


def quoted(text):
    return text.replace("\\", "").replace("'", "").replace("[", "(").replace("]", ")").replace(":", " -")


def zsh(h):
    lines = []
    for names, takes_value, text in h.options:
        value = (":value:(cpu vulkan auto)" if "--device" in names else ":value:_files") if takes_value else ""
        lines += [f"  '*{name}[{quoted(text)}]{value}'" for name in names]
    return f"#compdef {h.name}\n_arguments \\\n" + " \\\n".join(lines + ["  '*:file:_files'"]) + "\n"


def fish(h):
    lines = [f"# Completion of {h.name} for fish."]
    for names, takes_value, text in h.options:
        line = f"complete -c {h.name}"
        for name in names:
            line += f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
        if takes_value:
            line += " -x -a 'cpu vulkan auto'" if "--device" in names else " -r"
        lines.append(line + f" -d '{quoted(text)}'")
    return "\n".join(lines) + "\n"


def main():
    out = pathlib.Path(sys.argv[1])
    for program in sys.argv[2:]:
        h = Help(program)
        for folder, name, content in (("man1", h.name + ".1", man_page(h)), ("bash", h.name, bash(h)),
                                      ("zsh", "_" + h.name, zsh(h)), ("fish", h.name + ".fish", fish(h))):
            (out / folder).mkdir(parents=True, exist_ok=True)
            (out / folder / name).write_text(content)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main()
