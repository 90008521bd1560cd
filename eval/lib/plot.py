"""Plots in one style, as SVG files that change only when their data changes."""

import re
import statistics

OURS, PAPER, OTHER = "#1f6f8b", "#c9a227", "#8a5a83"
COLORS = [OURS, "#b5452c", "#5c8a3a", OTHER, PAPER, "#555555"]


def write(path, draw, size, panels):
    """Writes a plot. `draw` gets the axes, or a list of them for several panels."""
    # Only here: what prints figures and draws none runs without matplotlib.
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    matplotlib.rcParams.update({
        "svg.hashsalt": "ashlar", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
        "axes.grid": True, "grid.alpha": 0.3, "axes.prop_cycle": matplotlib.cycler(color=COLORS)})
    figure, axes = plt.subplots(1, panels, figsize=size, layout="constrained")
    draw(axes)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    path.write_text(numbered(path.read_text()))


def numbered(svg):
    """The text of an SVG file with its identifiers numbered by their first places. matplotlib hashes unrounded sizes into
    them, whose last digits depend on the processor.
    """
    found = dict.fromkeys(re.findall(r'\bid="([a-z][0-9a-f]{10})"', svg))
    numbers = {old: f"{old[0]}{number}" for number, old in enumerate(found, 1)}
    return re.sub(r"\b[a-z][0-9a-f]{10}\b", lambda word: numbers.get(word[0], word[0]), svg)


def bars(axes, names, values, color=OURS, unit="Mpps"):
    """Bar chart with values above the bars, and minimum and maximum as whiskers; `values` are lists."""
    middle = [statistics.median(v) for v in values]
    around = [[m - min(v) for m, v in zip(middle, values)], [max(v) - m for m, v in zip(middle, values)]]
    drawn = axes.bar(names, middle, color=color, yerr=around, capsize=3, width=0.6)
    axes.bar_label(drawn, fmt="%.2f", padding=4)
    axes.margins(y=0.12)
    axes.set_ylabel(unit)


def groups(axes, names, series, unit):
    """Grouped bar chart; `series` has, by name, one value per group."""
    width = 0.72 / len(series)
    for n, (name, heights) in enumerate(series.items()):
        places = [k + width * n for k in range(len(names))]
        axes.bar_label(axes.bar(places, heights, 0.95 * width, label=name), fmt="%.1f")
    axes.set_xticks([k + width * (len(series) - 1) / 2 for k in range(len(names))], names)
    axes.set_ylabel(unit)
    axes.margins(y=0.25)
    axes.legend(loc="upper center", ncols=len(series))
