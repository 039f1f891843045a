"""Adapters that let other trainers learn on sandlot's environments."""
