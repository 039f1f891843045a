"""Blueprint: executable goals over what happened in a home."""
