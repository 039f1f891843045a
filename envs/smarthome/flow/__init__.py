"""MCTS-Flow: tree search on snapshots that finds several verified ways to do a task."""
