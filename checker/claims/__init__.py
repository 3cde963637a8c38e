"""What a Placement says beside its assignments: counts, reasons, causes, preferences that are not met, and what it says for itself."""
