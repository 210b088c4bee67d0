# SPDX-License-Identifier: Apache-2.0
"""Decoders of transformers that read images, as two graphs: `encode` makes features of an image, and `decode` reads them in the
place of the image's tokens."""

import inspect
from typing import NamedTuple

import numpy as np

from ._decoder import Input, decoder_of, part_of
from ._errors import UnsupportedError

FEATURES = "cross.image"  # an output of encode and an input of decode


class Images(NamedTuple):
    """What the images of a model are."""

    token: int  # the id that stands for a feature in a prompt
    shape: tuple  # of an image
    features: int  # per image
    rank: int  # of pixel_values: 4, or 5 with several images per prompt


def reads_images(model):
    return hasattr(model, "get_image_features") and getattr(model.config, "vision_config", None) is not None


def images_of(torch, model):
    """The Images of a model."""
    config, accepted = model.config, inspect.signature(model.forward).parameters
    token = next((value for name in ("image_token_id", "image_token_index") if (value := getattr(config, name, None)) is not None), None)
    size = getattr(config.vision_config, "image_size", None)
    for name in ("token_type_ids", "mm_token_type_ids"):
        if name in accepted:
            raise UnsupportedError(f"the model reads {name}: images that change the attention or the positions of tokens are not supported")
    if token is None or size is None:
        raise UnsupportedError("the configuration names no image token or no size of images")
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    shape, reason = (getattr(config.vision_config, "num_channels", 3), height, width), None
    for rank in (4, 5):
        try:
            with torch.no_grad():
                features = features_of(torch, model, torch.zeros(2, *[1] * (rank - 4), *shape))
            return Images(int(token), shape, features.shape[1], rank)
        except Exception as error:  # a module may fail in any way
            reason = reason or f"{type(error).__name__}: {error}"
    raise UnsupportedError(f"the model makes no features of images [{', '.join(map(str, shape))}] alone ({reason})")


def features_of(torch, model, pixels):
    """[batch, features, size]."""
    made = model.get_image_features(pixel_values=pixels)
    made = getattr(made, "pooler_output", made)
    made = torch.stack(list(made)) if isinstance(made, (list, tuple)) else made
    return made.reshape(pixels.shape[0], -1, made.shape[-1])


def image_decoder_of(torch, model, images):
    """(the module `encode`, the module `decode`). A prompt has the tokens of one image, or none."""
    width = model.get_input_embeddings().embedding_dim

    def encode(given):
        pixels = given["pixel_values"]
        return {FEATURES: features_of(torch, model, pixels if images.rank == 4 else pixels.unsqueeze(1))}

    def embeds(given):
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
        return torch.where(is_image.unsqueeze(-1), picked, model.get_input_embeddings()(ids)) + wrong

    decode = decoder_of(torch, model, embeds)
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
