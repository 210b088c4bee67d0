// SPDX-License-Identifier: Apache-2.0
// Grammars that generated texts follow. These functions are in libhologram_text.
//
//     HG_TRY_ASSIGN(const hg::Grammar grammar, hg::Grammar::parse("root ::= \"yes\" | \"no\""));
//     HG_TRY_ASSIGN(const auto texts, hg::token_texts(tokenizer));
//     options.constraint = hg::constraint_of(grammar, texts);
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "hg/generator.h"
#include "hg/text/tokenizer.h"

namespace hg {

// A context-free grammar over bytes. Immutable and thread-safe; copies share the rules.
class Grammar {
 public:
  // Parses rules `name ::= alternatives`; texts follow the rule `root`.
  //
  // | "text" | the text; after a backslash: n r t " [ ] xHH uHHHH UHHHHHHHH or another backslash |
  // | [a-z_] [^"] . | a character of a set, outside a set, any character |
  // | name | a text of the rule |
  // | a b, a "|" b, (a) | a sequence, an alternative, a group |
  // | a* a+ a? a{2} a{2,} a{2,5} | repetitions |
  // | # | a comment until the end of the line |
  //
  // Fails with invalid_argument and names the line. Left-recursive rules are invalid.
  static Result<Grammar> parse(std::string_view rules);
  // A grammar whose texts are JSON values that the schema accepts, with the properties of objects
  // in the order of the schema. Objects have only the properties that the schema names.
  // Knows type, properties, required, additionalProperties, items, minItems, maxItems, minLength,
  // maxLength, enum, const, anyOf, $ref and $defs. Ignores format, and annotations such as title.
  // Fails with unsupported, naming the place, for other keywords that restrict values, and with
  // invalid_argument for a wrong schema.
  static Result<Grammar> from_json_schema(std::string_view schema);

  // Read the rules or the schema from a file. Fail also with not_found.
  static Result<Grammar> load(const std::string& path);
  static Result<Grammar> load_json_schema(const std::string& path);

  // Whether the whole text follows the grammar.
  bool accepts(std::string_view text) const;

  class Rules;  // internal
  explicit Grammar(std::shared_ptr<const Rules> rules) : rules_(std::move(rules)) {}
  const std::shared_ptr<const Rules>& rules() const { return rules_; }

 private:
  std::shared_ptr<const Rules> rules_;
};

// What each token adds to a text. Thread-safe. Making it takes as long as decoding the vocabulary.
// Fails with unsupported if the texts of tokens depend on their neighbors (BPEDecoder, CTC).
class TokenTexts;
Result<std::shared_ptr<const TokenTexts>> token_texts(const Tokenizer& tokenizer);

// Allows the tokens that a text of the grammar can continue with, and stop ids after a whole text.
// Special tokens have no text.
std::shared_ptr<const Constraint> constraint_of(const Grammar& grammar,
                                                std::shared_ptr<const TokenTexts> texts);

}  // namespace hg
