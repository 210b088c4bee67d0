# SPDX-License-Identifier: Apache-2.0
"""Nested lists, tuples and dicts, flattened in order and built again.

A tree is ``None`` for no tensor, ``"*"`` for one, ``[kind, children]`` with kind "list" or "tuple", or
``["dict", keys, children]``: plain data, so that it can be written to a file.
"""


def flatten(value, is_leaf=lambda value: False):
    """(leaves, tree) of nested lists, tuples and dicts; None is a part of the tree."""
    leaves = []

    def walk(each):
        if each is None:
            return None
        if not is_leaf(each):
            if isinstance(each, dict):
                return ["dict", list(each.keys()), [walk(v) for v in each.values()]]
            if isinstance(each, (list, tuple)):
                kind = "list" if isinstance(each, list) else "tuple"
                return [kind, [walk(v) for v in each]]
        leaves.append(each)
        return "*"

    tree = walk(value)
    return leaves, tree


def unflatten(tree, leaves):
    """The reverse of flatten()."""
    left = iter(leaves)

    def build(node):
        if node is None:
            return None
        if node == "*":
            return next(left)
        if node[0] == "dict":
            return dict(zip(node[1], [build(n) for n in node[2]]))
        parts = [build(n) for n in node[1]]
        return parts if node[0] == "list" else tuple(parts)

    return build(tree)


def rebuild_of(tree):
    return lambda leaves: unflatten(tree, leaves)
