"""Token tries over the admissible actions: what constrained decoding samples from and choice decoding scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np


@dataclass(slots=True)
class Node:
    """A prefix that some admissible actions share."""

    children: dict[int, Node] = field(default_factory=dict)
    action: str | None = None
    """The action that ends here; only on the nodes below a stop token."""
    allowed: tuple[int, ...] = ()
    """The ids in `children`, rising."""


class Trie:
    """All admissible actions, each encoded as its ids and the stop token.

    Args:
        actions: admissible actions; where two are encoded alike, the first stands for both.
        encode: text to ids.
        stop: the stop token's id.
    """

    def __init__(self, actions: Sequence[str], encode: Callable[[str], tuple[int, ...]], stop: int) -> None:
        self.root = Node()
        self.candidates = tuple((*encode(action), stop) for action in actions)
        self.actions = tuple(actions)
        self.depth = max(len(candidate) for candidate in self.candidates)
        nodes = [self.root]
        for action, candidate in zip(actions, self.candidates):
            node = self.root
            for token in candidate:
                if token not in node.children:
                    node.children[token] = Node()
                    nodes.append(node.children[token])
                node = node.children[token]
            node.action = node.action or action
        for node in nodes:
            node.allowed = tuple(sorted(node.children))

    @cached_property
    def tree(self) -> Tree:
        """The trie laid out for one forward pass."""
        return Tree(self)


class Tree:
    """A trie's inner nodes in one row: each attends to its ancestors only. Node 0 is the root, which is not fed.

    Attributes:
        tokens: (Q,) ids of the fed nodes 1 .. Q.
        depth: (Q,) 0 for the root's children.
        ancestors: (Q, Q) bool, [i, j]: node j + 1 is node i + 1 or above it.
        edge_node: (E,) the node whose logits predict an edge.
        edge_token: (E,) the token that the edge stands for, stop tokens included.
        paths: (candidates, longest) indices of each candidate's edges, -1 after its end.
    """

    def __init__(self, trie: Trie) -> None:
        numbers: dict[int, int] = {id(trie.root): 0}
        edges: dict[tuple[int, int], int] = {}
        tokens: list[int] = []
        depth: list[int] = []
        parents: list[int] = []
        self.paths = np.full((len(trie.candidates), trie.depth), -1, dtype=np.int64)
        for row, candidate in enumerate(trie.candidates):
            node = trie.root
            for column, token in enumerate(candidate):
                number, child = numbers[id(node)], node.children[token]
                self.paths[row, column] = edges.setdefault((number, token), len(edges))
                if child.children and id(child) not in numbers:
                    tokens.append(token)
                    depth.append(column)
                    parents.append(number)
                    numbers[id(child)] = len(tokens)
                node = child
        self.tokens = np.array(tokens, dtype=np.int64)
        self.depth = np.array(depth, dtype=np.int64)
        self.ancestors = np.eye(len(tokens), dtype=bool)
        for index, parent in enumerate(parents):
            if parent:
                self.ancestors[index] |= self.ancestors[parent - 1]
        self.edge_node = np.array([node for node, _ in edges], dtype=np.int64)
        self.edge_token = np.array([token for _, token in edges], dtype=np.int64)

    def scores(self, edges: np.ndarray) -> np.ndarray:
        """(candidates,) sums of the edges' log-probabilities (E,) along each candidate."""
        return np.append(edges, 0.0)[self.paths].sum(axis=1)
