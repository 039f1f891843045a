"""TextWorld's own generated games: cooking, coin collecting, treasure hunting."""
