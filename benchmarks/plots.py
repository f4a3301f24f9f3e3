"""Plots of a run's tables as PNG, one file for each module of benchmarks; without matplotlib, a message."""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_plots(data: Mapping[str, Any], folder: Path) -> list[Path]:
    """`data` is what report.as_data gives, or what a JSON file of it holds."""
    if not importlib.util.find_spec("matplotlib"):
        print("no plots: matplotlib is not installed (the JSON has all they need)")
        return []
    charts: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for table in data["tables"]:
        if table["chart"]:
            charts[table["module"]].append(table)
    return [_write(tables, data["machine"], folder / f"{name}.png") for name, tables in charts.items()]


def _write(tables: Sequence[Mapping[str, Any]], machine: Mapping[str, str], path: Path) -> Path:
    from matplotlib.figure import Figure

    heights = [0.9 + len(table["rows"]) * (0.25 + 0.13 * len(table["chart"])) for table in tables]
    figure = Figure(figsize=(11, sum(heights) + 0.6), layout="constrained")
    figure.suptitle(
        f"{machine.get('device', '')}, {machine.get('date', '')}, torch {machine.get('torch', '')}", fontsize=9
    )
    axes = figure.subplots(len(tables), squeeze=False, height_ratios=heights)[:, 0]
    for axis, table in zip(axes, tables, strict=True):
        _bars(axis, table)
    figure.savefig(path, dpi=110)
    return path


def _bars(axis: Any, table: Mapping[str, Any]) -> None:
    series = {name: [row[table["header"].index(name)] for row in table["rows"]] for name in table["chart"]}
    thickness = 0.85 / len(series)
    for i, (name, values) in enumerate(series.items()):
        places = [row + i * thickness for row, value in enumerate(values) if value is not None]
        shown = [value for value in values if value is not None]
        bars = axis.barh(places, shown, height=thickness, label=name)
        axis.bar_label(bars, fmt="%.3g", fontsize=6, padding=2)
    axis.set_yticks(
        [row + 0.4 for row in range(len(table["rows"]))], [str(row[0]) for row in table["rows"]], fontsize=7
    )
    axis.invert_yaxis()
    for line in table.get("lines", ()):  # results of earlier versions have none
        axis.axvline(line, color="black", linewidth=0.8, linestyle="--")
    if table["unit"] == "ms":
        axis.set_xscale("log")
    axis.set_xlabel(table["unit"], fontsize=7)
    axis.tick_params(axis="x", labelsize=7, which="both")
    axis.set_title(table["title"], fontsize=8, loc="left")
    axis.legend(fontsize=6)
