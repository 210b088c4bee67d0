# SPDX-License-Identifier: Apache-2.0
"""Decoders of transformers that read images, as two graphs: `encode` makes features of an image, and `decode` reads them in the
place of the image's tokens."""

import inspect
from typing import NamedTuple

import numpy as np

from .._errors import UnsupportedError, one_line
from ._decoder import Input, decoder_of, part_of, without_cache
from ._masks import scores, seen_keys, sliding_window
from ._parts import part_with_text

FEATURES = "cross.image"  # an output of encode and an input of decode


class Images(NamedTuple):
    """What the images of a model are."""

    token: int  # the id that stands for a feature in a prompt
    shape: tuple  # of an image
    features: int  # per image
    rank: int  # of pixel_values: 4, or 5 with several images per prompt
    types: str  # the input that tells the types of tokens, or empty
    is_prefix: bool  # whether it marks the answer, not the images: the tokens of a prompt see each other

    def types_of(self, ids, mask, prompt):
        """The types of ids of which the first `prompt` are the prompt."""
        past_prompt = np.broadcast_to(np.arange(ids.shape[1]) >= prompt, ids.shape)
        return (past_prompt if self.is_prefix else (ids == self.token) & (mask != 0) & ~past_prompt).astype(np.int64)

    def arguments(self, torch, ids, mask, pixels, prompt):
        """Arguments of forward and generate(), in addition to ids and mask."""
        pixels = pixels if self.rank == 4 else pixels.unsqueeze(1)
        types = {self.types: torch.from_numpy(self.types_of(ids, mask, prompt))} if self.types else {}
        return {"pixel_values": pixels, **types}


def reads_images(model):
    return "pixel_values" in inspect.signature(model.forward).parameters


def images_of(torch, model):
    """The Images of a model."""
    config, accepted = model.config, inspect.signature(model.forward).parameters
    if not hasattr(model, "get_image_features") or getattr(config, "vision_config", None) is None:
        raise UnsupportedError("its images do not become features in the place of tokens")
    token = next((value for name in ("image_token_id", "image_token_index") if (value := getattr(config, name, None)) is not None), None)
    size = getattr(config.vision_config, "image_size", None)
    read = inspect.signature(model.get_image_features).parameters.values()
    needed = ["image_grid_thw", *(each.name for each in read if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD)]
    sizes = next((name for name in needed if name in accepted and name != "pixel_values"), None)
    if sizes is not None and sizes.endswith("input_ids"):
        raise UnsupportedError(f"the features of its images depend on another text, {sizes}")
    if sizes is not None:
        raise UnsupportedError(f"its images have any size, which {sizes} tells; only images of one size are supported")
    places = next((name for name in accepted if name.endswith("position_mask")), None)
    if token is None and places is not None:
        raise UnsupportedError(f"{places} tells where its images are, not the id of a token")
    if token is None or size is None:
        raise UnsupportedError("its configuration names no image token or no size of images")
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    shape, reasons = (getattr(config.vision_config, "num_channels", 3), height, width), {}
    types = next((name for name in ("token_type_ids", "mm_token_type_ids") if name in accepted), "")
    draws = torch.Generator().manual_seed(0)
    for rank in (4, 5):
        try:
            with torch.no_grad():
                features = features_of(torch, model, torch.randn(2, *[1] * (rank - 4), *shape, generator=draws))
        except Exception as error:  # a module may fail in any way
            reasons[rank] = one_line(error)
            continue
        images = Images(int(token), shape, features.shape[1], rank, types, False)
        return images._replace(is_prefix=bool(types) and _marks_answers(torch, model, images))
    # Modules that read several images per prompt name the sizes that they unpack.
    reason = reasons[5] if "expected 5" in reasons[4] else reasons[4]
    raise UnsupportedError(f"it makes no features of images [{', '.join(map(str, shape))}] alone ({reason})")


def _marks_answers(torch, model, images):
    """Whether a token of type 0 sees later tokens of this type."""
    ids = np.full((1, images.features + 2), images.token)
    ids[0, [0, -1]] = (images.token + 1) % 8, (images.token + 2) % 8
    found = []
    for last in 3, 5:
        ids[0, -1] = (images.token + last) % 8
        given = images.arguments(torch, ids, np.ones_like(ids), torch.ones(1, *images.shape), ids.shape[1])
        given[images.types] = torch.zeros(ids.shape, dtype=torch.long)
        given |= {"input_ids": torch.from_numpy(ids), "attention_mask": torch.ones(ids.shape, dtype=torch.long)}
        with torch.no_grad():
            found.append(model(**given, **without_cache(model), return_dict=True).logits[:, 0])
    return not torch.allclose(*found, rtol=1e-3, atol=1e-3)


def features_of(torch, model, pixels):
    """[batch, features, size]."""
    made = model.get_image_features(pixel_values=pixels)
    made = getattr(made, "pooler_output", made)
    made = torch.stack(list(made)) if isinstance(made, (list, tuple)) else made
    return made.reshape(pixels.shape[0], -1, made.shape[-1])


def image_decoder_of(torch, model, images, limit):
    """(the module `encode`, the module `decode`). A prompt has the tokens of one image, or none. ``limit``: positions, or None."""
    width = model.get_input_embeddings().embedding_dim
    window = sliding_window(model) if images.types else None
    slides = window is not None
    if slides and images.is_prefix and (limit is None or limit > window):
        raise UnsupportedError(f"its masks have no windows, which slide after {window} tokens; pass max_context={window} or --max-context {window}")

    def encode(given):
        pixels = given["pixel_values"]
        return {FEATURES: features_of(torch, model, pixels if images.rank == 4 else pixels.unsqueeze(1))}

    def read(given):
        ids, mask, features = given["input_ids"], given["attention_mask"], given[FEATURES]
        past = mask.shape[1] - ids.shape[1]
        is_prompt = torch.full((1, 1), past) == 0  # an image's token in an answer is no image
        is_image = (ids == images.token) & (mask[:, past:] != 0) & is_prompt
        count = is_image.sum(1, keepdim=True)
        at = (is_image.long().cumsum(1) - 1).clamp(0, images.features - 1)
        picked = torch.gather(features, 1, at.unsqueeze(-1).expand(-1, -1, features.shape[2]))
        # Logits of a prompt with another number of tokens are NaN, which generators reject.
        fits = (count == 0) | (count == images.features)
        wrong = torch.where(fits, 0.0, float("nan")).unsqueeze(-1)
        words = torch.where(ids == images.token, 0, ids)  # it may have no embedding of its own
        known = model.get_input_embeddings()(words if images.token >= model.get_input_embeddings().num_embeddings else ids)
        made = {"inputs_embeds": torch.where(is_image.unsqueeze(-1), picked, known) + wrong}
        if images.types:
            seen, distance = seen_keys(torch, mask, is_image, is_prompt, images.is_prefix)
            made["attention_mask"] = scores(torch, seen)
            if slides and not images.is_prefix:
                made["attention_mask"] = {"full_attention": scores(torch, seen), "sliding_attention": scores(torch, seen & (distance < window))}
        return made

    text = part_with_text(torch, model) or model
    if getattr(text.config, "is_encoder_decoder", False):
        raise UnsupportedError("its encoder reads images and text together")
    decode = decoder_of(torch, text, limit, read)
    if not decode.pasts or decode.steps or decode.one_row or not decode.is_masked:
        raise UnsupportedError(f"a model that reads images needs keys and values that grow; {decode.without_past or 'it keeps states'}")
    batch = decode.inputs[0].example.shape[0]
    pixels = Input("pixel_values", torch.zeros(1, *images.shape), {})  # modules make lists of images
    decode.inputs.append(Input(FEATURES, torch.zeros(batch, images.features, width), {0: "batch"}))
    return part_of(torch, model, [pixels], encode), decode


def prompts_with_image(images, lengths, draw):
    """(ids, mask): prompts of these lengths around the tokens of an image, padded on the left."""
    longest = max(lengths) + images.features
    ids, mask = np.zeros((len(lengths), longest), np.int64), np.zeros((len(lengths), longest), np.int64)
    for row, length in enumerate(lengths):
        text = draw((length,))
        begin, middle = longest - length - images.features, length // 2
        ids[row, begin:] = [*text[:middle], *[images.token] * images.features, *text[middle:]]
        mask[row, begin:] = 1
    return ids, mask


def without_images(images, ids, words):
    return np.where(ids == images.token, (images.token + 1) % words, ids)
