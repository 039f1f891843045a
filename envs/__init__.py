"""Environments. Importing this package registers all of them with Gymnasium and loads none."""

from .core.registry import REGISTRY, find, make, register

__all__ = ["REGISTRY", "find", "make", "register"]
