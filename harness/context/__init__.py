"""Context builders: how a history becomes a prompt."""

from .builders import ContextBuilder, FullHistory, History, MakeContext, Window

__all__ = ["ContextBuilder", "FullHistory", "History", "MakeContext", "Window"]
