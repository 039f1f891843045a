"""Context builders: how a history becomes a prompt."""
