# SPDX-License-Identifier: Apache-2.0
"""Settings of generation_config.json that change the tokens of transformers' generate(), but not those of a generator by itself.

Generators apply the ids that begin and end an answer. All other settings need an option of the call, or have no counterpart.
"""

# Settings without a counterpart, and the values that have no effect. None has no effect either.
_UNKNOWN = {
    "min_length": 0, "min_new_tokens": 0, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "encoder_repetition_penalty": 1.0,
    "bad_words_ids": [], "suppress_tokens": [], "begin_suppress_tokens": [], "sequence_bias": {}, "guidance_scale": 1.0,
    "exponential_decay_length_penalty": None, "watermarking_config": None, "stop_strings": [], "token_healing": False, "penalty_alpha": 0.0,
    "dola_layers": None, "num_beam_groups": 1, "diversity_penalty": 0.0, "constraints": None, "force_words_ids": None,
}  # fmt: skip
_UNKNOWN_SAMPLING = {"typical_p": 1.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "top_h": None}
# Options of a generator, and the values that generate() uses if a setting is missing.
_SAMPLING = {"temperature": 1.0, "top_k": 50, "top_p": 1.0, "min_p": 0.0}
_BEAMS = {"length_penalty": 1.0, "early_stopping": False}


def settings_warnings(module):
    """Warnings: one names the settings that generators have as options, the other the settings that they cannot apply."""
    config = getattr(module, "generation_config", None)
    if config is None:
        return []
    options, unknown = _different(config, {"repetition_penalty": 1.0, "num_return_sequences": 1, "num_beams": 1}), _different(config, _UNKNOWN)
    has_beams = "num_beams" in options
    if has_beams:
        options |= _different(config, _BEAMS)
    if getattr(config, "do_sample", None):
        unknown |= _different(config, _UNKNOWN_SAMPLING)
        if has_beams:
            unknown["do_sample"] = True  # of beams
        else:
            options["temperature"] = _value(config, "temperature", 1.0)
            options |= {name: value for name, usual in _SAMPLING.items() if (value := _value(config, name, usual)) != (0 if name == "top_k" else usual)}
    warnings = []
    if options:
        warnings.append(f"generate() of the module uses {_listed(options)}, as its generation_config says; pass these options to generators")
    if unknown:
        warnings.append(f"generators do not support {_listed(unknown)} of the generation_config, so tokens can differ from those of generate()")
    if getattr(config, "lang_to_id", None) or getattr(config, "task_to_id", None):
        warnings.append("generate() of the module begins answers with the ids of a language and a task; pass these ids as the beginning of answers")
    return warnings


def _value(config, name, usual):
    value = getattr(config, name, None)
    return usual if value is None else value


def _different(config, usual):
    return {name: value for name, each in usual.items() if (value := _value(config, name, each)) != each and value}


def _listed(settings):
    words = [name if isinstance(value, (list, dict, tuple)) or not isinstance(value, (bool, int, float, str)) else f"{name}={value}" for name, value in settings.items()]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
