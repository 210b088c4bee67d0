# SPDX-License-Identifier: Apache-2.0
"""Random nodes of ai.onnx.ml on numbers."""
import numpy as np
from onnx import numpy_helper

from case import Case, flag, open_

ML = {"domain": "ai.onnx.ml"}


def features(rng, columns=None, dtypes=(np.float32, np.float64, np.int64, np.int32)):
    rows, columns = int(rng.integers(1, 7)), columns or int(rng.integers(1, 6))
    x = rng.normal(0, 2, (rows, columns))
    return x.astype(dtypes[int(rng.integers(0, len(dtypes)))])


def numbers(rng, count):
    return [float(v) for v in rng.normal(0, 1, count).astype(np.float32)]


def prepared(rng):
    kind = int(rng.integers(0, 4))
    x = features(rng)
    count = 1 if flag(rng) else x.shape[1]
    if kind == 0:
        return Case("Scaler", [open_(x)], opset=1, scale=numbers(rng, count), offset=numbers(rng, count), **ML)
    if kind == 1:
        return Case("Normalizer", [open_(x[0] if flag(rng) else x)], opset=1, norm=str(rng.choice(["MAX", "L1", "L2"])), **ML)
    if kind == 2:
        return Case("Binarizer", [open_(features(rng, dtypes=(np.float32,)))], opset=1, threshold=0.3, **ML)
    x = features(rng, dtypes=(np.float32, np.int64))
    count = 1 if flag(rng) else x.shape[1]
    if x.dtype == np.int64:
        return Case("Imputer", [open_(x)], opset=1, imputed_value_int64s=[int(v) for v in rng.integers(0, 9, count)], replaced_value_int64=1, **ML)
    x[rng.random(x.shape) < 0.3] = np.nan
    return Case("Imputer", [open_(x)], opset=1, imputed_value_floats=numbers(rng, count), replaced_value_float=float("nan"), **ML)


def picked(rng):
    x = features(rng)
    if flag(rng):
        return Case("ArrayFeatureExtractor", [open_(x[0] if flag(rng) else x), open_(rng.integers(0, x.shape[1], int(rng.integers(1, 4))).astype(np.int64))],
                    opset=1, **ML)
    rows = int(rng.integers(1, 4))
    parts = [rng.normal(0, 1, (rows, int(rng.integers(1, 4)))).astype(np.float32) for _ in range(int(rng.integers(1, 4)))]
    return Case("FeatureVectorizer", [open_(p) for p in parts], opset=1, inputdimensions=[int(p.shape[1] + rng.integers(-1, 2) * flag(rng)) or 1 for p in parts], **ML)


def encoded(rng):
    if rng.random() < 0.3:
        x = rng.integers(0, 6, tuple(rng.integers(1, 4, int(rng.integers(1, 3))))).astype(rng.choice([np.int64, np.float32]))
        return Case("OneHotEncoder", [open_(x)], opset=1, cats_int64s=[3, 0, 4, 1], zeros=1, **ML)
    count = int(rng.integers(1, 7))
    keys, given = rng.integers(-4, 5, count), rng.integers(-9, 10, count)
    made = {"opset": int(rng.choice([2, 4])), **ML}
    x = rng.integers(-5, 6, tuple(rng.integers(1, 5, int(rng.integers(1, 3)))))
    if made["opset"] == 4 and flag(rng):
        made |= {"keys_tensor": numpy_helper.from_array(keys.astype(np.int64)), "values_tensor": numpy_helper.from_array(given.astype(np.float32)),
                 "default_tensor": numpy_helper.from_array(np.array([7.5], np.float32))}
        return Case("LabelEncoder", [open_(x.astype(np.int64))], **made)
    if flag(rng):
        x, made["keys_int64s"] = x.astype(np.int64), [int(k) for k in keys]
    else:
        x, made["keys_floats"] = x.astype(np.float32), [float(k) for k in keys]
        if flag(rng):
            made["keys_floats"][0] = float("nan")
            x.flat[0] = np.nan
    if flag(rng):
        made |= {"values_int64s": [int(v) for v in given], "default_int64": 5}
    else:
        made |= {"values_floats": [float(v) for v in given]}
    return Case("LabelEncoder", [open_(x)], **made)


def linear(rng):
    x = features(rng)
    columns = x.shape[1]
    if flag(rng):
        targets = int(rng.integers(1, 4))
        transforms = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"] if targets > 1 else ["NONE"]
        return Case("LinearRegressor", [open_(x.astype(np.float32))], opset=1, targets=targets, coefficients=numbers(rng, targets * columns),
                    intercepts=numbers(rng, targets) if flag(rng) else None, post_transform=str(rng.choice(transforms)), **ML)
    classes = int(rng.integers(1, 5))
    labels = [7, 3, 5, 1, 9][: max(classes, 2)]
    transforms = ["NONE", "SOFTMAX", "LOGISTIC"] if classes > 1 else ["NONE", "LOGISTIC"]
    return Case("LinearClassifier", [open_(x)], opset=1, coefficients=numbers(rng, classes * columns), intercepts=numbers(rng, classes), classlabels_ints=labels,
                multi_class=flag(rng), post_transform=str(rng.choice(transforms)), outputs=2, tolerance=1e-3, **ML)


def vectors(rng):
    columns = int(rng.integers(1, 5))
    x = features(rng, columns, (np.float32,))
    kernel = str(rng.choice(["LINEAR", "POLY", "RBF", "SIGMOID"]))
    shared = {"kernel_type": kernel, "kernel_params": [0.3, 0.5, 2.0], "opset": 1, "tolerance": 1e-3, **ML}
    if flag(rng):
        count = int(rng.integers(0, 6))
        return Case("SVMRegressor", [open_(x)], n_supports=count, support_vectors=numbers(rng, count * columns) if count else None,
                    coefficients=numbers(rng, count or columns), rho=numbers(rng, 1), one_class=flag(rng), **shared)
    classes = int(rng.integers(2, 5))
    each = [int(v) for v in rng.integers(1, 4, classes)]
    return Case("SVMClassifier", [open_(x)], vectors_per_class=each, support_vectors=numbers(rng, sum(each) * columns),
                coefficients=numbers(rng, (classes - 1) * sum(each)), rho=numbers(rng, classes * (classes - 1) // 2),
                classlabels_ints=[4, 2, 8, 6][:classes], outputs=2, **shared)


def grown(rng, columns, trees, modes):
    """Returns lists of nodes of random trees, each numbered from 0; leaves are (tree, node)."""
    nodes, leaves = [], []
    for tree in range(trees):
        first, todo = len(nodes), [0]
        nodes.append(None)
        while todo:
            node = todo.pop()
            if len(nodes) - first > 14 or rng.random() < 0.3:
                nodes[first + node] = (tree, node, 0, 0.0, "LEAF", 0, 0)
                leaves.append((tree, node))
                continue
            yes, no = len(nodes) - first, len(nodes) - first + 1
            nodes += [None, None]
            split = float(np.float32(rng.integers(-3, 4) if rng.random() < 0.5 else rng.normal()))
            nodes[first + node] = (tree, node, int(rng.integers(0, columns)), split, str(rng.choice(modes)), yes, no)
            todo += [yes, no]
    return nodes, leaves


COMPARISONS = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def tree_inputs(rng):
    x = features(rng, dtypes=(np.float32, np.float32, np.float64, np.int64))
    if rng.random() < 0.2:
        x = np.concatenate([x] * int(rng.integers(10, 40)))
        rng.shuffle(x)
    if x.dtype != np.int64 and rng.random() < 0.4:
        x[rng.random(x.shape) < 0.3] = np.nan
    modes = COMPARISONS if rng.random() < 0.3 else [str(rng.choice(COMPARISONS))]
    nodes, leaves = grown(rng, x.shape[1], int(rng.integers(1, 60 if rng.random() < 0.2 else 5)), modes)
    return x, nodes, leaves, [flag(rng) for _ in nodes] if flag(rng) else None


def node_lists(nodes, tracks):
    names = ["treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids"]
    made = {f"nodes_{name}": [node[i] for node in nodes] for i, name in enumerate(names)}
    return made | {"nodes_missing_value_tracks_true": tracks, "opset": 1, **ML}


def leaf_lists(rng, what, leaves, targets, positive=False, all_told=True):
    if rng.random() < 0.3 and not all_told:  # each tree has weights for one target, as in boosted trees
        own = rng.integers(0, targets, 1 + max(t for t, _ in leaves))
        found = [(t, n, int(own[t])) for t, n in leaves]
    else:
        found = [(t, n, int(c)) for t, n in leaves for c in (range(targets) if all_told or flag(rng) else rng.permutation(targets)[:1])]
    weights = numbers(rng, len(found))
    return {f"{what}_treeids": [f[0] for f in found], f"{what}_nodeids": [f[1] for f in found], f"{what}_ids": [f[2] for f in found],
            f"{what}_weights": [abs(w) for w in weights] if positive else weights}


def regression_trees(rng):
    """If no leaf has a weight for a target, ONNX Runtime omits the base value, which the specification does not
    state."""
    x, nodes, leaves, tracks = tree_inputs(rng)
    targets, with_base = int(rng.integers(1, 4)), flag(rng)
    transforms = ["NONE", "NONE", "LOGISTIC", "SOFTMAX"] if targets > 1 else ["NONE"]
    return Case("TreeEnsembleRegressor", [open_(x)], n_targets=targets, aggregate_function=str(rng.choice(["SUM", "AVERAGE", "MIN", "MAX"])),
                base_values=numbers(rng, targets) if with_base else None, post_transform=str(rng.choice(transforms)),
                **node_lists(nodes, tracks), **leaf_lists(rng, "target", leaves, targets, all_told=with_base))


def classification_trees(rng):
    """If both of two classes have weights, ONNX Runtime returns label 1 or 0 for any labels, so only scores are
    compared."""
    x, nodes, leaves, tracks = tree_inputs(rng)
    classes = int(rng.integers(2, 5))
    made = {"classlabels_int64s": [3, 1, 7, 5][:classes], "outputs": 2, "tolerance": 1e-3, **node_lists(nodes, tracks)}
    if classes == 2 and rng.random() < 0.8:  # one score decides
        one, positive = flag(rng), flag(rng)
        lists = leaf_lists(rng, "class", leaves, 1, positive)
        lists["class_ids"] = [one] * len(lists["class_ids"])
        return Case("TreeEnsembleClassifier", [open_(x)], base_values=numbers(rng, 1) if flag(rng) and not one else None,
                    post_transform=str(rng.choice(["NONE", "LOGISTIC"])), **made, **lists)
    with_base = flag(rng) if classes > 2 else 0
    return Case("TreeEnsembleClassifier", [open_(x)], base_values=numbers(rng, classes) if with_base else None, keep=(1,) if classes == 2 else None,
                post_transform=str(rng.choice(["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])), **made,
                **leaf_lists(rng, "class", leaves, classes, flag(rng), all_told=with_base or classes == 2))


def placed_trees(rng):
    """TreeEnsemble of version 5: leaves are in separate lists, and a node may test for a set."""
    x = features(rng, dtypes=(np.float32, np.float64))
    columns, targets = x.shape[1], int(rng.integers(1, 4))
    nodes, leaves = grown(rng, columns, int(rng.integers(1, 9)), [str(rng.choice(COMPARISONS))])
    inner = {(n[0], n[1]): i for i, n in enumerate(n for n in nodes if n[4] != "LEAF")}
    outer = {leaf: i for i, leaf in enumerate(leaves)}
    kept = [n for n in nodes if n[4] != "LEAF"]
    if any(n[4] == "LEAF" and n[1] == 0 for n in nodes):
        return placed_trees(rng)

    def child(tree, node):
        return (outer[tree, node], 1) if (tree, node) in outer else (inner[tree, node], 0)

    sets, modes = [], []
    for n in kept:
        asks = rng.random() < 0.2
        modes.append(6 if asks else COMPARISONS.index(n[4]))
        if asks:
            sets += [*(float(v) for v in rng.integers(-2, 3, int(rng.integers(1, 4)))), float("nan")]
    if sets:
        x = np.round(x)
    elif flag(rng):
        x[rng.random(x.shape) < 0.3] = np.nan
    dtype, by_tree = x.dtype, flag(rng)
    own = rng.integers(0, targets, 1 + max(tree for tree, _ in leaves))
    made = {"nodes_featureids": [n[2] for n in kept], "nodes_modes": numpy_helper.from_array(np.array(modes, np.uint8)),
            "nodes_splits": numpy_helper.from_array(np.array([n[3] for n in kept], dtype)),
            "nodes_truenodeids": [child(n[0], n[5])[0] for n in kept], "nodes_trueleafs": [child(n[0], n[5])[1] for n in kept],
            "nodes_falsenodeids": [child(n[0], n[6])[0] for n in kept], "nodes_falseleafs": [child(n[0], n[6])[1] for n in kept],
            "tree_roots": [i for i, n in enumerate(kept) if n[1] == 0], "leaf_targetids": [int(own[tree]) if by_tree else int(rng.integers(0, targets)) for tree, _ in leaves],
            "leaf_weights": numpy_helper.from_array(rng.normal(0, 1, len(leaves)).astype(dtype)), "n_targets": targets}
    if flag(rng) and not sets:
        made["nodes_missing_value_tracks_true"] = [flag(rng) for _ in kept]
    if sets:
        made["membership_values"] = numpy_helper.from_array(np.array(sets, dtype))
    return Case("TreeEnsemble", [open_(x)], opset=5, aggregate_function=int(rng.integers(0, 4)), **made, **ML)


MAKERS = [prepared, picked, encoded, linear, vectors, regression_trees, classification_trees, placed_trees]
