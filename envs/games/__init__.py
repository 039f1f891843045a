"""Two-player games: seats, opponents, ratings, and single-agent environments against an opponent of the pool."""
