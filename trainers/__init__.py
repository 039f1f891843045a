"""Trainers: records to advantages to losses to weights."""
