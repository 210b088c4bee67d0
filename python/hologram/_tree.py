# SPDX-License-Identifier: Apache-2.0
"""Flattens nested lists, tuples and dicts in order and rebuilds them; dicts identify members by name.

A tree is ``None`` for no tensor, ``"*"`` for a tensor, ``"number"`` for a Python number, ``[kind, children]`` with
kind "list" or "tuple", or ``["dict", keys, children]``. Trees of results may also be ``["of", class, context,
children]``. A tree can be pickled if its classes can.
"""

from . import _core


# Recursive functions are at module level: a nested one would form a reference cycle that keeps its tensors alive.


def flatten(value, is_leaf=lambda value: False, nodes=None):
    """(leaves, tree) of nested lists, tuples and dicts; None is part of the tree. With torch's pytree nodes, numbers are leaves
    too, and registered classes and named tuples are flattened."""
    leaves = []
    return leaves, _flatten(value, is_leaf, nodes, leaves)


def _flatten(each, is_leaf, nodes, leaves):
    if each is None:
        return None
    if not is_leaf(each):
        if nodes is not None and type(each) not in (dict, list, tuple):
            if type(each) in nodes:
                children, context = nodes[type(each)].flatten_fn(each)
                return ["of", type(each), context, _flatten_all(children, is_leaf, nodes, leaves)]
            if hasattr(each, "_fields"):
                return ["of", type(each), None, _flatten_all(each, is_leaf, nodes, leaves)]
            if isinstance(each, (bool, int, float)):
                leaves.append(each)
                return "number"
        if isinstance(each, dict):
            return ["dict", list(each.keys()), _flatten_all(each.values(), is_leaf, nodes, leaves)]
        if isinstance(each, (list, tuple)):
            return ["list" if isinstance(each, list) else "tuple", _flatten_all(each, is_leaf, nodes, leaves)]
    leaves.append(each)
    return "*"


def _flatten_all(children, is_leaf, nodes, leaves):
    return [_flatten(child, is_leaf, nodes, leaves) for child in children]


def unflatten(tree, leaves):
    """The inverse of flatten()."""
    return _unflatten(tree, iter(leaves))


def _unflatten(node, left):
    if node is None:
        return None
    if node == "*":
        return next(left)
    if node == "number":
        return next(left).item()
    if node[0] == "dict":
        return dict(zip(node[1], [_unflatten(n, left) for n in node[2]]))
    if node[0] == "of":
        return _made_again(node[1], node[2], [_unflatten(n, left) for n in node[3]])
    parts = [_unflatten(n, left) for n in node[1]]
    return parts if node[0] == "list" else tuple(parts)


def _made_again(cls, context, children):
    if hasattr(cls, "_fields"):  # a named tuple
        return cls(*children)
    from torch.utils import _pytree

    return _pytree.SUPPORTED_NODES[cls].unflatten_fn(children, context)


def leaves_of(arguments, names, tree=None):
    """The tensors of nested arguments in the order of names, or of their original tree; None for members that a dict lacks.
    Raises TypeError if dicts have names in other places."""
    order = order_of(tree, names)
    ordered = order(arguments) if order is not None else None
    return _core.in_order(arguments, names) if ordered is None else _core.in_order(ordered, [])


def rebuild_of(tree):
    return lambda leaves: unflatten(tree, leaves)


def _listed(keys):
    return ", ".join(repr(key) for key in keys) or "nothing"


def _has_dict(tree):
    return isinstance(tree, list) and (tree[0] == "dict" or any(_has_dict(each) for each in tree[1]))


def order_of(tree, names):
    """A function that reorders nested arguments to match a tree whose dicts identify members by name. It returns None for
    arguments of another structure, or that use input names. The result is None for a tree without dicts."""

    def order(arguments):
        try:
            return _ordered(arguments, tree, names)
        except LookupError:
            return None

    return order if _has_dict(tree) else None


def _ordered(value, node, names):
    if node is None or node == "*":
        if (value is None) is not (node is None):
            raise LookupError
        return value
    if node[0] == "dict":
        if not isinstance(value, dict) or (set(value) != set(node[1]) and set(value) <= set(names)):
            raise LookupError
        if set(value) != set(node[1]):
            raise TypeError(f"a dict has {_listed(value)}; the one that the model was made with had {_listed(node[1])}")
        return {key: _ordered(value[key], child, names) for key, child in zip(node[1], node[2])}
    if not isinstance(value, (list, tuple)) or len(value) != len(node[1]):
        raise LookupError
    return tuple(_ordered(each, child, names) for each, child in zip(value, node[1]))
