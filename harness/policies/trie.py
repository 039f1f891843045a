"""Token tries over the admissible actions: what constrained decoding samples from and choice decoding scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

Candidate = tuple[tuple[int, ...], str]  # ids with the stop token, and the action they stand for


class Node:
    """A prefix that some admissible actions share. Its children are made when they are first asked for.

    Args:
        candidates: those that begin with the prefix.
        depth: length of the prefix.
    """

    __slots__ = ("_children", "allowed", "candidates", "depth")

    def __init__(self, candidates: Sequence[Candidate], depth: int) -> None:
        self.candidates = candidates
        self.depth = depth
        self.allowed = tuple(sorted({ids[depth] for ids, _ in candidates if len(ids) > depth}))
        """The ids that may follow, rising; none where an action is complete."""
        self._children: dict[int, Node] = {}

    @property
    def action(self) -> str | None:
        """The action that is complete here, or None; of several with the same ids, the first."""
        return None if self.allowed else self.candidates[0][1]

    def child(self, token: int) -> Node:
        """The node one allowed token further."""
        if token not in self._children:
            below = [candidate for candidate in self.candidates if candidate[0][self.depth] == token]
            self._children[token] = Node(below, self.depth + 1)
        return self._children[token]


class Trie:
    """All admissible actions, each encoded as its ids and the stop token.

    Args:
        actions: admissible actions.
        encode: text to ids, the stop token never among them.
        stop: the stop token's id.
    """

    def __init__(self, actions: Sequence[str], encode: Callable[[str], tuple[int, ...]], stop: int) -> None:
        self.actions = tuple(actions)
        self.candidates = tuple((*encode(action), stop) for action in actions)
        self.depth = max(len(candidate) for candidate in self.candidates)
        self.root = Node(list(zip(self.candidates, self.actions)), 0)

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
                number, child = numbers[id(node)], node.child(token)
                self.paths[row, column] = edges.setdefault((number, token), len(edges))
                if child.allowed and id(child) not in numbers:
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
