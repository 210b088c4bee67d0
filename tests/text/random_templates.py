# SPDX-License-Identifier: Apache-2.0
"""Random conversations, and random templates by Jinja's grammar, many of them nonsense."""

TEXTS = ["", "hi", " hello \n", "What is 2 + 2?", "Grüße, ﬁ ß ΣΑΣ", "日本語 and 한국어", "👩‍👩‍👧 🙂", "a<b>&\"c\" 'd'", "<think>\nhm\n</think>\n\n42", "\ttabs\r\nlines\n\n",
         "line 1\nline 2\n", "{{ not a tag }} {% if %}", "x" * 40, "back\\slash", "\u2028 \x1f \u00a0end", "Ünïcode tïtle-case (and so on)", "İi ǆ", "<|im_end|>",
         "1", "-7", "3.5", "1e3", " 12 "]
TOOL = {"type": "function", "function": {"name": "weather", "description": "Tells it.\nNow.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "ünï"}, "days": {"type": "array", "items": {"type": "integer"}},
                                     "unit": {"type": ["string", "null"], "enum": ["C", "F"]}}, "required": ["city"]},
    "return": {"type": "number"}}}


def conversation(draw):
    messages = []
    for i in range(draw.choice([0, 1, 1, 2, 3, 5])):
        role = "system" if i == 0 and draw.random() < 0.4 else draw.choice(["user", "assistant"]) if draw.random() < 0.3 else \
            ("user" if i % 2 == 0 else "assistant")
        message = {"role": role, "content": draw.choice(TEXTS)}
        if draw.random() < 0.1:
            message["content"] = draw.choice([None, 3, [{"type": "text", "text": draw.choice(TEXTS)}, {"type": "image"}], {"a": [1, 2.5, True]}])
        if draw.random() < 0.1:
            message["tool_calls"] = [{"function": {"name": "f", "arguments": {"x": draw.choice(TEXTS), "n": 1, "f": 0.1, "e": 1e22, "z": None}}}]
        messages.append(message)
    return messages


def variables(draw):
    out = {}
    if draw.random() < 0.4:
        out["tools"] = [TOOL] * draw.choice([1, 1, 2])
    if draw.random() < 0.3:
        out["variables"] = {"enable_thinking": draw.random() < 0.5, "n": draw.choice([0, 1, -3, 7]), "r": draw.choice([0.5, -2.0, 1e16, 1e-7, 100.0]),
                            "s": draw.choice(TEXTS), "l": [3, 1, 2], "d": {"b": 1, "a": "x", "items": 2}}
    return out


class Writer:
    def __init__(self, draw):
        self.draw = draw
        self.names = ["messages", "tools", "n", "r", "s", "l", "d", "missing", "add_generation_prompt", "bos_token"]
        self.macros = []
        self.in_loop = 0
        self.spaces = ["a", "b"]

    def pick(self, *items):
        return self.draw.choice(items)

    def constant(self):
        return self.pick("0", "1", "2", "-1", "3", "10", "1.5", "2.0", "0.1", "true", "false", "none", "'a'", "'abc'", '"b c"', "''", r"'\n'", r"'x\ty'",
                         "'é'", "'Hello World'", "' pad '", "'user'", "'a,b,c'", "[]", "{}", "[1, 2, 3]", "['b', 'a', 'C']", "(1, 'a')", "{'k': 1, 'j': [2]}",
                         "1_000", "'{}'", "'%s'", "[[1, 2], [3]]", "()", "[none, 1, 'q']", "'ß'")

    def name(self):
        return self.pick(*self.names, *(["loop"] if self.in_loop and self.draw.random() < 0.3 else []))

    def many(self, low, high, make, between=", "):
        return between.join(make() for _ in range(self.draw.randint(low, high)))

    def expression(self, depth=3):
        d = depth - 1
        if depth <= 0 or self.draw.random() < 0.2:
            return self.pick(self.constant, self.name)()
        kind = self.draw.randrange(22)
        e = lambda: self.expression(d)  # noqa: E731
        if kind == 0:
            return f"({e()} {self.pick('+', '-', '*', '/', '//', '%', '**')} {self.pick('1', '2', '3', '-2', '0.5', e())})"
        if kind == 1:
            return f"({e()} {self.pick('==', '!=', '<', '<=', '>', '>=', 'in', 'not in')} {e()})"
        if kind == 2:
            return f"({e()} {self.pick('and', 'or')} {e()})"
        if kind == 3:
            return f"(not {e()})"
        if kind == 4:
            return f"({e()} ~ {e()})"
        if kind == 5:
            return f"({e()} if {e()} else {e()})" if self.draw.random() < 0.8 else f"({e()} if {e()})"
        if kind == 6:
            return f"{self.name()}.{self.pick('role', 'content', 'items', 'a', 'b', 'index', 'first', 'last', 'length', 'x', 'keys')}"
        if kind == 7:
            return f"{e()}[{self.pick('0', '-1', '1', repr('role'), repr('content'), repr('a'), e())}]"
        if kind == 8:
            return f"{e()}[{self.pick('', '1', '-2', '0')}:{self.pick('', '2', '-1')}{self.pick('', ':', ':-1', ':2')}]"
        if kind in (9, 10, 11, 12):
            return f"({e()} | {self.filter(d)})"
        if kind in (13, 14):
            return f"({e()} is {self.pick('', '', 'not ')}{self.test(d)})"
        if kind in (15, 16):
            return f"{e()}.{self.method(d)}"
        if kind == 17:
            return f"[{self.many(0, 3, e)}]"
        if kind == 18:
            return "{" + self.many(0, 2, lambda: f"{self.constant()}: {e()}") + "}"
        if kind == 19:
            return self.pick(lambda: f"range({self.many(1, 3, lambda: self.pick('0', '1', '3', '-1', '5'))})", lambda: f"dict(a={e()}, b={e()})",
                             lambda: "strftime_now('%Y-%m-%d %H:%M')", lambda: f"namespace(a={e()})")()
        if kind == 20 and self.macros:
            name, count = self.draw.choice(self.macros)
            return f"{name}({self.many(0, count + 1, e)}{self.pick('', '', ', p=1')})".replace("(, ", "(")
        return f"(-{e()})" if self.draw.random() < 0.3 else f"({e()}, {e()})"

    def filter(self, d):
        e = lambda: self.expression(d)  # noqa: E731
        return self.pick(
            lambda: self.pick("trim", "length", "upper", "lower", "title", "capitalize", "first", "last", "list", "string", "int", "float", "abs", "tojson",
                              "items", "reverse", "sort", "unique", "min", "max", "sum", "dictsort", "safe", "count", "join", "wordcount", "e"),
            lambda: f"join({self.pick(repr(', '), repr(''), e())})", lambda: f"default({e()}{self.pick('', ', true', ', boolean=true')})",
            lambda: f"replace({self.pick(repr('a'), repr(''), repr('l'))}, {self.pick(repr('b'), repr('--'))}{self.pick('', ', 1')})",
            lambda: f"indent({self.pick('2', '4', repr('> '))}{self.pick('', ', true', ', false, true', ', first=true')})",
            lambda: f"tojson({self.pick('indent=2', 'indent=none', 'ensure_ascii=true', 'sort_keys=true', 'separators=(' + repr(',') + ', ' + repr(':') + ')')})",
            lambda: f"map({self.pick(repr('upper'), repr('length'), repr('string'), 'attribute=' + repr('role'), 'attribute=' + repr('content'))}) | {self.pick('list', 'join', 'first', 'join(' + repr('-') + ')', 'length')}",
            lambda: f"{self.pick('selectattr', 'rejectattr')}({self.pick(repr('role'), repr('content'), repr('x'))}{self.pick('', ', ' + repr('equalto') + ', ' + repr('user'), ', ' + repr('defined'), ', ' + repr('in') + ', [' + repr('user') + ']')}) | list",
            lambda: f"{self.pick('select', 'reject')}({self.pick('', repr('string'), repr('defined'), repr('odd'))}) | list",
            lambda: f"trim({self.pick(repr('a'), repr(' x'), repr('ab'))})", lambda: f"sort(reverse=true) | {self.pick('list', 'first')}",
            lambda: f"sort(attribute={self.pick(repr('role'), repr('content'))}) | length")()

    def test(self, d):
        return self.pick("defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true",
                         "false", "odd", "even", "lower", "upper", "callable", f"in {self.expression(0)}", f"eq({self.expression(d)})", "equalto 'user'",
                         f"sameas {self.pick('none', 'true', 'false')}", f"divisibleby({self.pick('2', '3')})", f"gt({self.pick('0', '1')})", f"in({self.expression(d)})")

    def method(self, d):
        return self.pick("strip()", "lstrip()", "rstrip()", "upper()", "lower()", "title()", "capitalize()", "split()", "split(',')", r"split('\n')",
                         "split('l', 1)", "rsplit('l', 1)", "splitlines()", "startswith('h')", "endswith(('a', 'c'))", "replace('l', 'L')", "replace('', '.', 2)",
                         "find('l')", "rfind('l')", "count('l')", "count('')", "isdigit()", "items()", "keys()", "values()", "get('a')", "get('zz', 5)", "strip('h\\n')",
                         "removeprefix('h')", "removesuffix('o')", "join(['x', 'y'])", "zfill(3)", "append(1)", "format(1)", "lstrip('a-z')", f"get({self.expression(d)})")

    def sign(self):
        return self.draw.choice(["", "", "", "", "-", "-", "+"])

    def tag(self, text):
        return f"{{%{self.sign()} {text} {self.draw.choice(['', '', '', '-', '-', '+'])}%}}"

    def shown(self, text):
        return f"{{{{{self.draw.choice(['', '', '-'])} {text} {self.draw.choice(['', '', '-'])}}}}}"

    def data(self):
        return self.pick(" ", "\n", "  \n  ", "text", "\n\ttext \n", "a { b", "", "é\n", " x ", "}}", "%}")

    def body(self, depth):
        return "".join(self.data() + self.statement(depth) + self.data() for _ in range(self.draw.randint(1, 3)))

    def statement(self, depth):
        d = depth - 1
        if depth <= 0 or self.draw.random() < 0.35:
            return self.shown(self.expression(self.draw.choice([1, 2, 3])))
        kind = self.draw.randrange(13)
        e = lambda: self.expression(2)  # noqa: E731
        if kind in (0, 1):
            text = self.tag(f"if {e()}") + self.body(d)
            if self.draw.random() < 0.3:
                text += self.tag(f"elif {e()}") + self.body(d)
            if self.draw.random() < 0.5:
                text += self.tag("else") + self.body(d)
            return text + self.tag("endif")
        if kind in (2, 3):
            target = self.pick("m", "x", "k, v", "a, b")
            over = self.pick("messages", "messages", "range(3)", "d.items()", "l", "s", "{'p': 1, 'q': 2}.items()", "[(1, 2), (3, 4)]", e())
            condition = self.pick("", "", f" if {target.split(',')[0]}", f" if {e()}")
            self.in_loop += 1
            self.names += target.split(", ")
            text = self.tag(f"for {target} in {over}{condition}") + self.body(d)
            if self.draw.random() < 0.2:
                text += self.tag(f"if {e()}") + self.tag(self.pick("break", "continue")) + self.tag("endif")
            if self.draw.random() < 0.2:
                text += self.shown(self.pick("loop.index", "loop.revindex0", "loop.first", "loop.last", "loop.length", "loop.previtem", "loop.nextitem",
                                             "loop.cycle('a', 'b')", "loop.depth"))
            self.in_loop -= 1
            if self.draw.random() < 0.2:
                text += self.tag("else") + self.body(d)
            return text + self.tag("endfor")
        if kind in (4, 5):
            name = self.pick("v", "w", "m", "s", "ns")
            value = "namespace(a=1, b='x')" if name == "ns" else e()
            self.names.append(name)
            return self.tag(f"set {name} = {value}")
        if kind == 6:
            return self.tag("set ns = namespace(a=0)") + self.tag(f"for q in {self.pick('messages', 'range(4)')}") + self.tag(
                f"set ns.a = {self.pick('ns.a + 1', 'ns.a ~ loop.index', e())}") + self.tag("endfor") + self.shown("ns.a")
        if kind == 7:
            self.names.append("blk")
            return self.tag(f"set blk{self.pick('', ' | upper', ' | trim | title')}") + self.body(d) + self.tag("endset") + self.shown("blk")
        if kind == 8:
            name, count = self.pick("mac", "mic"), self.draw.randint(0, 2)
            arguments = ["p", "q"][:count]
            old, self.names = self.names, self.names + arguments + self.draw.choice([[], [], ["caller", "varargs", "kwargs"]])
            loops, self.in_loop = self.in_loop, 0
            with_default = ", ".join(a + self.pick("", "=" + self.constant()) if a == arguments[-1] else a for a in arguments)
            text = self.tag(f"macro {name}({with_default})") + self.body(d) + self.tag("endmacro")
            self.names, self.in_loop = old, loops
            self.macros.append((name, count))
            return text
        if kind == 9 and self.macros:
            name, count = self.draw.choice(self.macros)
            return self.tag(f"call {name}({self.many(0, count, e)})") + self.body(d) + self.tag("endcall")
        if kind == 10:
            return self.tag(f"filter {self.pick('upper', 'trim', 'indent(2)', 'replace(' + repr('a') + ', ' + repr('b') + ')')}") + self.body(d) + self.tag("endfilter")
        if kind == 11:
            return self.pick(lambda: self.tag(f"with v = {e()}, w = {e()}") + self.body(d) + self.tag("endwith"),
                             lambda: "{% raw %} {{ x }} {%- endraw %}\n", lambda: "{#- note -#}", lambda: "{# note #}\n",
                             lambda: self.tag("generation") + self.body(d) + self.tag("endgeneration"))()
        if self.draw.random() < 0.2:
            return self.pick("{% if %}", "{{ }}", "{{ 1 + }}", "{% endfor %}", "{% for x %}", "{{ a b }}", "{{ [1, }}", "{% unknown %}", "{{ 'open }}", "{% raise_exception('no') %}")
        return self.pick("{{ raise_exception('no') }}", "") if self.draw.random() < 0.1 else self.shown(e())


def template(draw):
    return Writer(draw).body(draw.choice([1, 2, 3]))
