"""Terminal tasks: one model for all formats, loaders, generated tasks, an auditor, and `sandlot/Terminal-v0`."""
