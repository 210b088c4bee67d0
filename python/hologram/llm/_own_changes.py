# SPDX-License-Identifier: Apache-2.0
"""Modules of transformers that replace their own parts, as BigBird-Pegasus replaces its sparse attention when a text is short. Such a
module treats a long text differently after a short one; here each run begins with the first parts, as a new module does."""

from contextlib import ExitStack, contextmanager


@contextmanager
def without_own_changes(model):
    """A context in which each run of the model, or of a model in it, begins with the parts and the string attributes that it has now. A
    model may still change a part before it calls that part."""
    from transformers import PreTrainedModel

    running = []
    with ExitStack() as stack:
        for part in model.modules():
            if isinstance(part, PreTrainedModel):
                restore = _restorer_of(part)
                stack.callback(restore)
                begin, end = _hooks_of(restore, running)
                stack.callback(part.register_forward_pre_hook(begin).remove)
                stack.callback(part.register_forward_hook(end, always_call=True).remove)
        yield


def _hooks_of(restore, running):
    def begin(module, args):
        if not running:
            restore()
        running.append(module)

    def end(module, args, output):
        running.pop()

    return begin, end


def _restorer_of(model):
    first = [(module, dict(module._modules), {name: value for name, value in vars(module).items() if isinstance(value, str)}) for module in model.modules()]

    def restore():
        for module, parts, words in first:
            for values, own in ((parts, module._modules), (words, vars(module))):
                own.update({name: value for name, value in values.items() if own.get(name) is not value})

    return restore
