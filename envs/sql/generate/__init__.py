"""Generated databases and questions: seeded, unlimited, disjoint by domain and instance."""
