"""HomeMaker: seeded homes."""
