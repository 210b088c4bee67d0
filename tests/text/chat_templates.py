#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""chat_templates.py PROGRAM [--count 200] [--seed 1]: compares hg::ChatTemplate with jinja2 as transformers configures it.

Renders random conversations with the templates of chat_files, and COUNT random templates. PROGRAM is text_render. A template that jinja2
renders gives the same text or is rejected; one that jinja2 rejects is rejected. Those of chat_files are equal. Exit status 77: jinja2
is not installed."""
import argparse
import datetime
import json
import pathlib
import random
import subprocess
import sys

try:
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    print("jinja2 is not installed")
    sys.exit(77)

from random_templates import conversation, template, variables

NOW = datetime.datetime(2026, 2, 3, 4, 5, 6)


class Generation(jinja2.ext.Extension):
    """The tag that transformers adds; its block has its own scope."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("keep"), [], [], body).set_lineno(line)

    def keep(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = NOW.strftime
    return made


def expected(env, job):
    """The text and "", or None and the error."""
    variables = {"messages": job["messages"], "tools": job.get("tools"), "documents": None,
                 "add_generation_prompt": job.get("add_generation_prompt", True),
                 "bos_token": job.get("bos_token", ""), "eos_token": job.get("eos_token", "")}
    variables.update(job.get("variables", {}))
    try:
        return env.from_string(job["template"]).render(**variables), ""
    except Exception as error:  # whatever Python raises
        return None, f"{type(error).__name__}: {error}"


TEMPLATES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(pathlib.Path(__file__).parent.glob("chat_files/*.jinja"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="list what hg alone rejects")
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    env = environment()
    jobs = []
    for name, source in TEMPLATES.items():
        for _ in range(max(4, arguments.count // 20)):
            jobs.append((name, {"template": source, "messages": conversation(draw), "bos_token": "<s>", "eos_token": "</s>",
                                "add_generation_prompt": draw.random() < 0.7, **variables(draw)}))
    for i in range(arguments.count):
        # Each has its own seed, so that it can be repeated alone.
        own = random.Random(f"{arguments.seed}.{i}")
        jobs.append((f"random {i}", {"template": template(own), "messages": conversation(own), "bos_token": "<s>", **variables(own)}))
    lines = "\n".join(json.dumps(job) for _, job in jobs) + "\n"
    ran = subprocess.run([arguments.program], input=lines, capture_output=True, text=True, encoding="utf-8", check=False)
    answers = [json.loads(line) for line in ran.stdout.split("\n") if line]
    if len(answers) != len(jobs):
        print(f"{arguments.program} answered {len(answers)} of {len(jobs)} lines: {ran.stderr[-2000:]}")
        print("next:", json.dumps(jobs[len(answers)][1]))
        return 1
    bad, same, rejected, refused, refusals = 0, 0, 0, 0, {}
    for (name, job), answer in zip(jobs, answers):
        want, why = expected(env, job)
        got = answer.get("text")
        if got is not None and got == want:
            same += 1
        elif got is None and want is None:
            rejected += 1
        elif got is None and name not in TEMPLATES:
            refused += 1
            kind = answer["error"].split(": ", 2)[-1]
            refusals[kind] = refusals.get(kind, 0) + 1
        else:
            bad += 1
            if bad <= 8:
                print(f"--- {name} --seed {arguments.seed}\n{json.dumps(job)}\nwant: {want!r} {why}\ngot:  {got!r} {answer.get('error', '')}")
    print(f"{len(jobs)} prompts: {same} equal, {rejected} rejected by both, {refused} rejected by hg alone, {bad} different")
    if arguments.show:
        for kind, count in sorted(refusals.items(), key=lambda item: -item[1])[:40]:
            print(count, kind)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
