# SPDX-License-Identifier: Apache-2.0
"""Nested lists, tuples and dicts, flattened in order and built again; dicts know their members by name.

A tree is ``None`` for no tensor, ``"*"`` for one, ``"number"`` for what was one of Python's, ``[kind, children]`` with kind "list"
or "tuple", ``["dict", keys, children]``, or, of results alone, ``["of", class, context, children]``. It can be pickled where the
classes can.
"""

from . import _core


# Functions that call themselves stand on their own: one inside of another would be a cycle, with all tensors that it saw.


def flatten(value, is_leaf=lambda value: False, nodes=None):
    """(leaves, tree) of nested lists, tuples and dicts; None is a part of the tree. With the nodes that torch's pytrees know
    numbers are, too, and so is what those and named tuples are made of."""
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
    """The reverse of flatten()."""
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
    """The tensors of nested arguments in the order of names, or of the tree that they had before; None for what a dict
    by name lacks. TypeError where dicts have names at other places."""
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
    """A function that brings nested arguments in the order of a tree, whose dicts know their members by name; it gives
    None for arguments of another structure, or with the names of inputs. None for a tree without dicts."""

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
