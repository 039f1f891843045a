"""OCI: an audited runtime without a daemon (crun, else runc)."""
