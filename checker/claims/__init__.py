"""Claims of a Placement other than its assignments: counts, reasons, causes, unmet preferences and assumptions."""
