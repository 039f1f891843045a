"""Smart home: a simulated home with Home Assistant's conventions, and the real one behind the same interface."""
