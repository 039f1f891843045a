"""Random numbers that are functions of names: the same draw in every branch, whatever was drawn before.

A counterfactual run of a home (without the agent's calls) must see the same residents and the same noise. A generator
with a running state would give other numbers after one more draw; these do not.
"""

from __future__ import annotations

from hashlib import blake2b


def uniform(*names: str | int) -> float:
    """A number in [0, 1) that belongs to `names` for ever."""
    digest = blake2b("\x1f".join(map(str, names)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
