"""Small exact decision problems in text, with known optimal values, on which methods are tested in seconds."""
