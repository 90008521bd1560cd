"""Shared modules of the folders in eval/: they run programs, read their results, and generate pages."""

import statistics


def spread(values, digits=2):
    """Median, minimum and maximum; of one value, that value."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"
