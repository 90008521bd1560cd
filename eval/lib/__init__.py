"""What the folders of eval/ share: running programs, reading them, and making pages of the results."""

import statistics


def spread(values, digits=2):
    """Median, least and most."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"
