# SPDX-License-Identifier: Apache-2.0
"""Language models of Hugging Face's transformers: a folder becomes one file that generates text.

    hologram.llm.convert("SmolLM2-135M", "smollm.hgm", bits=4)

The file holds one graph for prompts and steps, the weights, and the tokenizer's files as attachments.
"""

import ctypes
import gc
import io
import math
import os
import sys
import tempfile
from functools import partial
from typing import NamedTuple

from .._convert import Report, _run
from .._errors import HologramError, MismatchError, NotFoundError, UnsupportedError, one_line
from .._low_bits import widened
from .._model import Library, load, path_of, refuse_overwriting
from .._quantize import quantize
from ._check import compare_decoder, expected_of, expected_of_encoder, expected_of_images
from ._decoder import ONE_ROW, STEP_BRANCH, WITHOUT_PAST, decoder_of, fault_of
from ._dynamic_positions import without_memory
from ._encoder_decoder import encoder_decoder_of, is_encoder_decoder, reads_sounds
from ._folder_check import Checkpoint, refuse_adapter, refuse_levels, refuse_missing, unread_warnings
from ._generation_settings import settings_warnings
from ._images import image_decoder_of, images_of, reads_images
from ._own_changes import without_own_changes
from ._parts import captioner_of, part_with_text, prepared_of
from ._program import export, trace
from ._quantized_folder import class_of, load_quantized, settings_of
from ._text_files import files_of


def convert(folder_or_model, path, *, tokenizer=None, bits=None, group=32, max_context=None, text_only=False, check=True):
    """Converts a folder with config, safetensors and tokenizer, or a model in memory, and writes ``path``.

    ``bits`` (8 or 4) quantizes the weights, with a scale per ``group`` of inputs. ``max_context`` limits prompt and answer
    together. ``text_only`` leaves out what a model needs for images. ``tokenizer`` is an optional tokenizer for a model in memory.
    Returns the Model; ``model.report`` has the check.

    Before the file is written, logits and 64 greedy tokens are compared with the module, in float32; a difference raises
    MismatchError. A model whose cache does not only grow recomputes all tokens at each step; ``report.warnings`` says so.
    Models and tokenizers are read from the disk only; code in the folder is not run.
    """
    torch, transformers = _imported()
    if bits not in (None, 8, 4):
        raise ValueError(f"bits is {bits}; weights have 8 or 4")
    if max_context is not None and max_context < 1:
        raise ValueError(f"max_context is {max_context}, expected at least 1")
    if group < 0:
        raise ValueError(f"group is {group}, expected at least 0")
    path = path_of(path)
    if not path or os.path.isdir(path):
        raise ValueError(f"'{path}' is no path of a file to write")
    place = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(place):
        raise NotFoundError(f"{path}: there is no folder {os.path.dirname(path)}")
    if isinstance(folder_or_model, (str, os.PathLike)) and os.path.isdir(folder_or_model):
        refuse_overwriting(path, [file.path for file in os.scandir(folder_or_model) if not file.name.endswith(".hgm")])
    with tempfile.TemporaryDirectory(dir=place, prefix=".hologram-") as work:
        wrong, forms = None, [""]
        while forms:
            form, captured = forms.pop(0), None
            try:
                captured = _capture(torch, transformers, folder_or_model, tokenizer, max_context, text_only, check, work, form, wrong)
                _release_memory()  # of a folder's module
                models, report = _converted(torch, captured, check, work)
                break
            except HologramError as error:
                wrong = wrong or error
                if isinstance(error, MismatchError) and form == "" and captured is not None:
                    forms = list(captured.forms)
                if not isinstance(error, MismatchError) or not forms:
                    raise wrong from None
        model = _one_file(models, report)
        if bits is not None:
            model = _one_file({name: quantize(each, bits=bits, group=group) for name, each in models.items()}, report)
        model.attachments = captured.files
        model.save(path)
    model = load(path)
    model.report = report
    return model


def _converted(torch, captured, check, work):
    """(the Models by the names of their entries, the report)."""
    try:
        return _compared(torch, captured, check, work)
    except HologramError as error:
        raise _named(error, captured.kind) from None


def _compared(torch, captured, check, work):
    models, details = {}, {}
    for entry, (file, *words) in captured.programs.items():
        source, target = os.path.join(work, file), os.path.join(work, f"{entry}.hgm")
        details = _run(source, target, ["--no-check", *words])
        _release_memory()
        os.remove(source)
        models[entry] = load(target)
    report = Report(details, unchecked="" if check else "check=False")
    report.warnings += captured.warnings
    if check:
        try:
            report.logits_error = compare_decoder(torch, _one_file(models, report), captured.expected)
        except (HologramError, MemoryError):
            raise
        except Exception as error:  # such as a size that a program rejects and the module accepts
            text = one_line(error)
            if "the model was converted for" in text:  # a branch of the module that torch.export took for the example's sizes
                text = text.partition(", because of")[0].removeprefix("ValueError: ")
                raise UnsupportedError(f"the program of torch.export is right for some lengths of text only: {text}") from error
            raise UnsupportedError(f"the converted model does not run where the module does: {text}") from error
        doubts = [each.doubt for each in captured.expected if each.doubt]
        report.warnings += [f"{doubt}; the file gives the tokens of generate()" for doubt in doubts[:1]]
    return models, report


def _one_file(models, report):
    """The decoder, or a library of encoder and decoder."""
    model = next(iter(models.values()))
    if len(models) > 1:
        model = Library()
        for name, each in models.items():
            model.add(name, each)
    model.report = report
    return model


def _release_memory():
    """Returns free memory to the system. glibc keeps as much as all weights after a conversion."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _imported():
    try:
        import torch
        import transformers
    except ImportError as error:
        raise UnsupportedError(f"hologram.llm needs the packages torch and transformers: pip install {error.name}") from None
    return torch, transformers


def _loaded(torch, transformers, folder, check):
    """(the module of a folder, warnings)."""
    if not os.path.isdir(folder):
        raise NotFoundError(f"{folder}: there is no such folder")
    refuse_adapter(folder)
    if not os.path.exists(os.path.join(folder, "config.json")):
        raise NotFoundError(f"{folder}: the folder has no config.json")
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        kind = _kind_of(transformers, folder, config)
        settings = settings_of(config)
        if settings is not None:
            return load_quantized(torch, kind, config, folder, settings, check), []
        file = Checkpoint(torch, folder)
        module, told = kind.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, output_loading_info=True, ignore_mismatched_sizes=True, **_without_code(kind)
        )
        refuse_missing(folder, told)
        refuse_levels(folder, file, module)
        return module, unread_warnings(told)
    except (HologramError, MemoryError):
        raise
    except Exception as error:  # files of any content
        raise UnsupportedError(f"{folder}: transformers cannot load the model: {error}") from error


def _without_code(kind):
    """Arguments of an Auto class so that it rejects code in a folder, instead of asking the user whether to run it."""
    return {"trust_remote_code": False} if hasattr(kind, "_model_mapping") else {}


def _kind_of(transformers, folder, config):
    """The Auto class that loads a folder: that of the architecture which its configuration names, if several do. Or the architecture."""
    names = ["AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq", "AutoModelForImageTextToText", "AutoModelForMultimodalLM"]
    if config.is_encoder_decoder:
        names.append(names.pop(0))
    kinds = [getattr(transformers, name) for name in names if hasattr(transformers, name)]
    kinds = [kind for kind in kinds if type(config) in kind._model_mapping]
    architectures = getattr(config, "architectures", None) or ()
    if not kinds:  # such as a decoder that is a part of other models
        kinds = [kind for name in architectures if issubclass(kind := getattr(transformers, name, object), transformers.GenerationMixin)]
    if not kinds:
        raise UnsupportedError(f"{folder}: {config.model_type} is no model of transformers that generates text")
    return next((kind for kind in kinds if class_of(kind, config).__name__ in architectures), kinds[0])


def _positions(module, max_context):
    """The number of positions that the model has, or None."""
    config = module.config.get_text_config(decoder=True)
    most = getattr(config, "max_position_embeddings", None) or getattr(config, "max_target_positions", None)
    most = most if most is not None and most > 0 else None  # XLNet's -1 is no limit
    if max_context is not None:
        if most is not None and max_context > most:
            raise ValueError(f"max_context is {max_context}, but the model has {most} positions")
        return max_context
    return most


# -- The module ------------------------------------------------------------------------------------


class _Captured(NamedTuple):
    """What remains of a module once its program is written."""

    kind: str  # of the model
    programs: dict  # the file and the options of hg-convert for each program; `encode` and `decode`, or `model`
    files: dict
    warnings: list
    expected: list
    forms: tuple  # others of the decoder, for the case that the check fails


def _capture(torch, transformers, folder_or_model, tokenizer, max_context, text_only, check, work, form, wrong):
    folder = path_of(folder_or_model) if isinstance(folder_or_model, (str, os.PathLike)) else None
    if folder is not None and tokenizer is not None:
        raise TypeError("a folder has its own tokenizer; pass tokenizer with a model in memory")
    module, warnings = _loaded(torch, transformers, folder, check) if folder is not None else (folder_or_model, [])
    if not isinstance(module, transformers.PreTrainedModel):
        raise TypeError(f"convert takes a folder or a model of transformers, not a {type(module).__name__}")
    limit = _positions(module, max_context)
    files, more = files_of(transformers, folder, module, tokenizer)
    warnings += more + settings_warnings(module)
    was_training = module.training
    try:
        module.eval()
        with without_memory(module), without_own_changes(module):
            part = _read_part(torch, module, text_only)
            if not isinstance(part, transformers.GenerationMixin):  # such as DiffusionGemma, which denoises blocks of tokens
                raise UnsupportedError("the module has no generate() that appends one token at a time")
            programs, expect, forms = _programs_of(torch, part, max_context, limit, text_only, warnings, work, form, wrong)
            expected = []
            if check:
                with widened(torch, module):
                    expected = expect()
    except (HologramError, MemoryError, OSError) as error:
        raise _named(error, module.config.model_type)
    except Exception as error:  # a module may fail in any way
        raise UnsupportedError(f"{module.config.model_type}: the module fails with {one_line(error)}") from error
    finally:
        module.train(was_training)
    return _Captured(module.config.model_type, {name: each.words for name, each in programs.items()}, files, warnings, expected, forms)


def _named(error, kind):
    """The exception with the type of the model before its message."""
    if isinstance(error, (UnsupportedError, MismatchError)):
        error.args = (f"{kind}: {error}",)
    return error


def _read_part(torch, module, text_only):
    """The module, or the part of it that the file holds."""
    part = part_with_text(torch, module)
    if part is None or not (text_only or type(module).forward is torch.nn.Module.forward):
        return captioner_of(torch, module) or prepared_of(torch, module) or module
    return part


def _programs_of(torch, module, max_context, limit, text_only, warnings, work, form, wrong):
    """(programs by the names of their entries, a function that makes the expected results, other forms of the decoder)."""
    if is_encoder_decoder(module):
        encoder, decoder = encoder_decoder_of(torch, module)
        _warn_without_past(decoder, warnings)
        if reads_images(module) and not text_only and encoder.inputs[0].name != "pixel_values":
            warnings.append("the file reads only text, not images")
        expect = partial(expected_of_encoder, torch, module, encoder.inputs[0], decoder, limit)
    elif reads_images(module) and not text_only:
        try:
            images = images_of(torch, module)
            encoder, decoder = image_decoder_of(torch, module, images, limit)
        except UnsupportedError as error:
            raise UnsupportedError(f"{error}; with text_only=True or --text-only, the file reads only text") from error
        expect = partial(expected_of_images, torch, module, images, limit)
    else:
        decoder = decoder_of(torch, module, limit, form=form, why=str(wrong))
        programs = {"model": _exported(torch, decoder, max_context, work, "model")}
        longest = programs["model"].limits.get("time", math.inf)
        if longest < (limit or math.inf) and not decoder.pasts:
            warnings.append(_reads_at_most("file", longest, "tokens"))
        _warn_without_past(decoder, warnings)
        if reads_sounds(module) and not text_only:
            warnings.append("the file reads only text, not sounds")
        if decoder.one_row:
            warnings.append("the model takes one prompt at a time, since several together differ from each alone")
        forms = (STEP_BRANCH,) if decoder.steps else (ONE_ROW, WITHOUT_PAST) if decoder.pasts and not decoder.has_step_branch else ()
        return programs, partial(expected_of, torch, module, decoder, programs["model"].pairs, limit), forms
    programs = {"encode": _exported(torch, encoder, None, work, "encode"), "decode": _exported(torch, decoder, max_context, work, "decode")}
    for size, most in programs["encode"].limits.items():
        if size != "batch":
            warnings.append(_reads_at_most("encoder", most, "tokens" if size == "source" else size))
    return programs, expect, ()


def _reads_at_most(reader, most, unit):
    return f"the {reader} reads at most {most} {unit}, since its module rejects longer inputs or computes them differently"


def _warn_without_past(decoder, warnings):
    if decoder.without_past:
        warnings.append(f"each step recomputes all tokens, since {decoder.without_past}")


class _File(io.FileIO):
    """Keeps the first error of write(): torch's writer of archives ends the process if one fails."""

    error = None

    def write(self, data):
        try:
            view = memoryview(data)
            while len(view) > 0 and self.error is None:
                view = view[super().write(view) :]
        except OSError as error:
            self.error = error
        return len(data)


def _write(torch, program, path):
    with _File(path, "w") as file:
        torch.export.save(program, file)
    if file.error is not None:
        raise OSError(f"cannot write {path}: {file.error.strerror}")


class _Exported(NamedTuple):
    words: list
    pairs: list
    limits: dict


def _exported(torch, part, max_context, work, name):
    try:
        program, words, pairs, limits = export(torch, part, max_context)
        _write(torch, program, os.path.join(work, f"{name}.pt2"))
        return _Exported([f"{name}.pt2", *words], pairs, limits)
    except UnsupportedError as error:
        if any(each.sizes for each in part.inputs):
            if part.inputs[0].name == "input_ids" and (fault := fault_of(torch, part.model)):
                raise UnsupportedError(fault) from error
            raise
        return _Exported([f"{name}.pt", *trace(torch, part, os.path.join(work, f"{name}.pt"))], [], {})
