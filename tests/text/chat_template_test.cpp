// SPDX-License-Identifier: Apache-2.0
// Chat templates: the language, errors and limits. tests/text/chat_templates.py compares many more
// templates with jinja2.
#include "hg/text/chat_template.h"

#include <gtest/gtest.h>

#include <random>

#include "hg/hg.h"
#include "tests/support/must.h"

namespace hg {
namespace {

const std::vector<ChatMessage> kMessages = {
    {"system", "Be kind."}, {"user", " Hi\n"}, {"assistant", "H\xc3\xa9llo"}};

Result<std::string> rendered(const std::string& source, const ChatOptions& options = {}) {
  HG_TRY_ASSIGN(const ChatTemplate chat, ChatTemplate::parse(source, "t"));
  return chat.render(kMessages, options);
}

TEST(ChatTemplate, RendersAConversation) {
  const std::string source =
      "{{ bos_token }}{% for m in messages %}\n"
      "    {% if m.role == 'system' %}{% continue %}{% endif %}\n"
      "<|{{ m['role'] }}|>{{ m.content | trim }}{{ eos_token }}\n"
      "{% endfor %}\n"
      "{%- if add_generation_prompt %}<|assistant|>{% endif %}\n";
  ChatOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  EXPECT_EQ(must(rendered(source, options)),
            "<s><|user|>Hi</s>\n<|assistant|>H\xc3\xa9llo</s>\n<|assistant|>");
  options.add_generation_prompt = false;
  EXPECT_EQ(must(rendered(source, options)), "<s><|user|>Hi</s>\n<|assistant|>H\xc3\xa9llo</s>\n");
}

TEST(ChatTemplate, Language) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"a\n", "a"},
      {"{# c #}\nx {#- c -#} y", "xy"},
      {"{% raw %}{{ x }}{% endraw %}", "{{ x }}"},
      {"  {% if true %}\n a\n  {%+ endif %}b", " a\n  b"},
      {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }}", "3 -4 2 3.5 8"},
      {"{{ 1 + 2 * 3 }} {{ 1 ~ 2 * 3 }} {{ -2 ** 2 }}", "7 16 4"},
      {"{{ 1 < 2 < 3 }} {{ 'a' in 'cat' }} {{ 3 not in [1] }}", "True True True"},
      {"{{ messages[-1].content[1] }} {{ 'abc'[::-1] }} {{ messages | length }}", "\xc3\xa9 cba 3"},
      {"{{ messages | map(attribute='role') | join(',') }}", "system,user,assistant"},
      {"{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "1"},
      {"{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + loop.index %}"
       "{% endfor %}{{ ns.n }}",
       "6"},
      {"{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }}{{ ', ' if not loop.last }}"
       "{% else %}none{% endfor %}",
       "a=1, b=2"},
      {"{% macro f(x, y='!') %}{{ x }}{{ y }}{{ caller() if caller else '' }}{% endmacro %}"
       "{{ f('a') }}{{ f(y='?', x=1) }}{% call f('b') %}c{% endcall %}",
       "a!1?b!c"},
      {"{% set x %}{% filter upper %}ab{% endfilter %}{% endset %}{{ x }}", "AB"},
      {"{{ missing }}{{ missing is defined }}{{ missing | default('d') }}", "Falsed"},
      {"{{ {'a': [1, 2.0, none, true], 'b': '\"\xc3\xa9'} | tojson }}",
       "{\"a\": [1, 2.0, null, true], \"b\": \"\\\"\xc3\xa9\"}"},
      {"{{ [1, 'a', none, 1e16, 0.1] }} {{ (1,) }} {{ \"it's\" }}",
       "[1, 'a', None, 1e+16, 0.1] (1,) it's"},
      {"{{ 'a b'.split()[1].upper() }}{{ 'xx'.strip('x') }}{{ 'abc'.startswith('ab') }}", "BTrue"},
      {"{{ strftime_now('%d %b %Y') }}", "03 Feb 2026"},
      {"{{ tools is none }} {{ range(3) | list }} {{ 'a\\n b' | indent(2) }}",
       "True [0, 1, 2] a\n   b"},
  };
  ChatOptions options;
  options.now.emplace();
  options.now->tm_year = 126;
  options.now->tm_mon = 1;
  options.now->tm_mday = 3;
  for (const auto& [source, want] : cases)
    EXPECT_EQ(must(rendered(source, options)), want) << source;
}

TEST(ChatTemplate, TakesJson) {
  const ChatTemplate chat = must(ChatTemplate::parse(
      "{{ messages[0].content[0].text }} {{ tools[0].function.name }} {{ thinks }}"));
  ChatOptions options;
  options.tools = R"([{"function": {"name": "f"}}])";
  options.variables = R"({"thinks": true})";
  EXPECT_EQ(must(chat.render_json(R"([{"content": [{"text": "hi"}]}])", options)), "hi f True");
  EXPECT_EQ(chat.render_json("{}").status().message(), "the messages must be a JSON list");
  EXPECT_EQ(chat.render_json("[").status().message(), "the messages are not JSON");
  options.tools = "1";
  EXPECT_EQ(chat.render_json("[]", options).status().message(), "the tools must be a JSON list");
  EXPECT_FALSE(chat.render_json(std::string(1000, '[') + std::string(1000, ']')).ok());
}

TEST(ChatTemplate, Refusals) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n{{ raise_exception('no system role') }}",
       "t: line 2: the template rejects the messages: no system role"},
      {"{{ x | shout }}", "t: line 1: the filter 'shout' is not supported"},
      {"{{ x is odd_one }}", "t: line 1: the test 'odd_one' is not supported"},
      {"\n\n{% include 'x' %}", "t: line 3: the tag 'include' is not supported"},
      {"{% if true %}", "the tag 'endif' is missing"},
      {"{{ missing.x }}", "t: line 1: 'missing' is undefined"},
      {"{{ 'a' + 1 }}", "t: line 1: '+' is not possible between a text and an integer"},
      {"{{ 1 // 0 }}", "division by zero"},
      {"{{ lipsum() }}", "the function 'lipsum' is not supported"},
      {"{{ messages.__class__ }}", "the attribute '__class__' of a list is not supported"},
      {"{{ messages.append(1) }}", "the attribute 'append' of a list is not supported"},
      {"{{ strftime_now('%d') }}", "which the caller did not give"},
      {"{{ 'open }}", "t: line 1: the text has no end"},
      {"{{ (1, 2 }}", "unexpected '}', expected ')'"},
      {"{# open", "the comment has no end"},
      {"{{ 99999999999999999999 }}", "the number 99999999999999999999 is too large"},
      {"{{ 9223372036854775807 + 1 }}", "exceeds 64 bits"},
      {"{% break %}", "'break' and 'continue' belong into a loop"},
      {"{% set messages.x = 1 %}", "only attributes of a namespace can be set"},
  };
  for (const auto& [source, want] : cases) {
    const Result<std::string> text = rendered(source);
    ASSERT_FALSE(text.ok()) << source << ": " << *text;
    EXPECT_NE(text.status().message().find(want), std::string::npos)
        << source << ": " << text.status().message();
  }
}

// Templates that would otherwise run for hours, fill the memory or overflow the stack.
TEST(ChatTemplate, Bounds) {
  const std::string loops =
      "{% for a in range(99999) %}{% for b in range(99999) %}"
      "{% endfor %}{% endfor %}";
  const std::string doubles =
      "{% set ns = namespace(x='a') %}{% for i in range(99) %}"
      "{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
  const std::string nests =
      "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}"
      "{% set ns.x = [ns.x] %}{% endfor %}";
  const std::string shares =
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
      "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}";
  const std::string recurses = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
  const std::string repeats = "{{ 'a' * 9999999999 }}";
  const std::string finds =
      "{% set a = 'a' * 9999999 %}{% for i in range(999) %}"
      "{{ (a ~ 'b') in a }}{% endfor %}";
  std::string sums = "{{ 1", ifs, brackets = "{{ ";
  for (int i = 0; i < 100000; ++i) {
    sums += "+1";
    ifs += "{% if 1 %}";
    brackets += "(";
  }
  for (const std::string& source :
       {loops, doubles, nests, shares, recurses, repeats, finds, sums + " }}", ifs, brackets})
    EXPECT_FALSE(rendered(source).ok()) << source.substr(0, 100);
  // A cycle of a macro and the namespace that holds it is freed.
  EXPECT_EQ(
      must(rendered("{% set ns = namespace() %}{% for i in [1] %}{% macro f() %}x{% endmacro %}"
                    "{% set ns.f = f %}{% set ns.me = ns %}{% endfor %}{{ ns.f() }}")),
      "x");
}

// Damaged templates neither crash nor hang.
TEST(ChatTemplate, DamagedTemplates) {
  const std::string source =
      "{{ bos_token }}{% set ns = namespace(n=0) %}{% macro f(x, y=[1, {'a': 2}]) %}{{ x ~ y }}"
      "{% endmacro %}{% for m in messages if m.role != 'x' %}{%- if m.content is string and "
      "(m.content | trim)[0:2] == 'Hi' -%}{{ f(m['content'] | upper, 1.5e3) }}{% elif loop.last "
      "%}{# c #}{% set ns.n = ns.n + 1 %}{{ m | tojson(indent=2) }}{% endif %}{% else %}-{% endfor "
      "%}{{ messages | map(attribute='role') | join(', ') }}";
  std::mt19937 random(7);
  const std::string alphabet = "{}%#-+'\"\\()[].,:|~=<>!*/ \nabx01_\xc3\xa9";
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = source;
    for (uint32_t i = 1 + random() % 4; i > 0 && !damaged.empty(); --i) {
      const size_t at = random() % damaged.size();
      if (random() % 3 == 0)
        damaged.erase(at, 1 + random() % 8);
      else if (random() % 2 == 0)
        damaged[at] = alphabet[random() % alphabet.size()];
      else
        damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 20));
    }
    const Result<std::string> text = rendered(damaged);
    if (!text.ok()) {
      EXPECT_FALSE(text.status().message().empty()) << damaged;
    }
  }
}

}  // namespace
}  // namespace hg
