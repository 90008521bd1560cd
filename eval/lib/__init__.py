"""Shared modules of the folders of eval/: they run programs, read their results, and make pages of them."""

import statistics


def spread(values, digits=2):
    """Median, least and most."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"
