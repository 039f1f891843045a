"""The harness: runs agents in environments and records every model call."""
