"""Home Assistant on both sides: a server that speaks its protocol for a `SimHome`, and a client for a real one."""
