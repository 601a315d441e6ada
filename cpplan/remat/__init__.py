"""Rematerialization: some ops run again, so that their results need not be kept."""
