# SPDX-License-Identifier: Apache-2.0
"""The adaptive softmax, a loss with its own weights."""

import torch
from torch.nn.modules.adaptive import _ASMoutput

from .. import _rows as ops
from ._products import Linear


class AdaptiveLogSoftmaxWithLoss(torch.nn.AdaptiveLogSoftmaxWithLoss):
    """Grave et al. 2017: the last classes of the head stand for clusters of rarer classes."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        for part in (self.head, *(each for cluster in self.tail for each in cluster)):
            part.__class__ = Linear

    def _cluster(self, i, x):
        return ops.log_softmax(self.tail[i](x), 1)

    def forward(self, input, target):
        if target.dim() > 1 or input.dim() != target.dim() + 1 or input.shape[:-1] != target.shape:
            raise ValueError(f"AdaptiveLogSoftmaxWithLoss: the input is {tuple(input.shape)}, the target {tuple(target.shape)}")
        alone = target.dim() == 0
        x, classes = (input.unsqueeze(0), target.unsqueeze(0)) if alone else (input, target)
        if classes.numel() and not 0 <= int(classes.min()) <= int(classes.max()) < self.n_classes:
            low, high = int(classes.min()), int(classes.max())
            raise ValueError(f"AdaptiveLogSoftmaxWithLoss of {self.n_classes} classes: targets lie in [{low}, {high}]")
        head = ops.log_softmax(self.head(x), 1)
        of_head, output = classes.clone(), None
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            rows = ((classes >= low) & (classes < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            of_head[rows] = self.shortlist_size + i
            local = ops.gather(self._cluster(i, ops.index_select(x, rows, 0)), (classes[rows] - low).unsqueeze(1), 1)
            base = local.new_zeros(classes.shape) if output is None else output
            output = ops.index_reduce(base, rows, local.squeeze(1), dim=0, reduce="add")
        chosen = ops.gather(head, of_head.unsqueeze(1), 1).squeeze(1)
        output = chosen if output is None else ops.add(output, chosen)
        loss = ops.mean(ops.neg(output), [0])
        return _ASMoutput(output.squeeze(0) if alone else output, loss)

    def _all(self, x, head):
        """Log probabilities of all classes, [n, n_classes]; head: [n, head_size]"""
        head = ops.log_softmax(head, 1)
        short = self.shortlist_size
        parts = [ops.add(self._cluster(i, x), head[:, short + i : short + i + 1]) for i in range(self.n_clusters)]
        return ops.concat([head[:, :short], *parts], dim=1)

    def log_prob(self, input):
        return self._all(input, self.head(input))

    def predict(self, input):
        head = self.head(input)
        found = ops.argmax(head, 1)
        rare = (found >= self.shortlist_size).nonzero().squeeze(1)
        if rare.numel():
            found[rare] = ops.argmax(self._all(input[rare], head[rare]), 1)
        return found
