"""Servers: a model over HTTP in the OpenAI protocol."""
