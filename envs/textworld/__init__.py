"""TextWorld: games made by `textworld`'s own generators, compiled once, cached, and played in its interpreter."""
