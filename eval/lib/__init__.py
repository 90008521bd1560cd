"""Shared modules of the folders in eval/: they run programs, read their results, and generate pages."""

import statistics


def between(least, most, digits):
    """Two numbers as a range; below zero with a word between them, as a dash beside a minus is misread."""
    return f"{least:.{digits}f}{' to ' if least < 0 else '-'}{most:.{digits}f}"


def ratios(ones, others):
    """Ratios of two lists, round by round."""
    return [one / other for one, other in zip(ones, others, strict=True)]


def spread(values, digits=2):
    """Median, minimum and maximum; of one value, that value."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{statistics.median(values):.{digits}f} ({between(min(values), max(values), digits)})"
