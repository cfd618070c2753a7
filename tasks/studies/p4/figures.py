"""Plot Figure 2 of [RFPP], and a comparison of strategies against a retrained inferrer."""

from pathlib import Path
from typing import Any

from tasks.studies.p4.trials import Measures, Setting
from tasks.studies.svg_plots import open_pyplot, save_figure


def plot(
    found: dict[Setting, Measures], ranked: dict[str, dict[int, tuple[float, float]]], directory: Path
) -> None:
    """Write fig2a.svg (gender), fig2c.svg (age), fig2d.svg (p₀ over k) and strategies.svg (gender)."""
    pyplot = open_pyplot(directory)
    for name, attribute in (("fig2a", "gender"), ("fig2c", "age")):
        _, axis = pyplot.subplots(figsize=(6.5, 4))
        _loss_and_inference(axis, _curve(found, attribute, "rfpp"))
        axis.set_title(f"Fig 2 ({name[-1]}): {attribute}, RFPP")
        save_figure(pyplot, directory / f"{name}.svg")
    _, axis = pyplot.subplots(figsize=(6.5, 4))
    for attribute, by_k in ranked.items():
        for reading, label in enumerate(("top k of all items", "k for every user")):
            shares = [both[reading] for both in by_k.values()]
            axis.plot(list(by_k), shares, marker="o", markersize=3, label=f"{attribute}, {label}")
    axis.set_xlabel("k")
    axis.set_xscale("log")
    axis.set_ylabel("p₀, %")
    axis.legend(fontsize="small")
    axis.set_title("Fig 2 (d): added ratings by k")
    save_figure(pyplot, directory / "fig2d.svg")
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    strategies = sorted({setting.strategy for setting in found if setting.strategy})
    for axis, inferrer in zip(axes, ("naive", "adaptive"), strict=True):
        for strategy in strategies:
            curve = _curve(found, "gender", strategy)
            values = [measured[f"BPre {inferrer}"] for measured in curve.values()]
            axis.plot(list(curve), values, marker="o", markersize=3, label=strategy)
        axis.axhline(0.5, color="grey", linewidth=0.8)
        axis.set_xlabel("p₀, %")
        axis.set_title(f"{inferrer} inferrer")
    axes[0].set_ylabel("balanced precision")
    axes[0].legend(fontsize="small")
    figure.suptitle("Gender, inferred from ratings and additions")
    save_figure(pyplot, directory / "strategies.svg")


def _curve(found: dict[Setting, Measures], attribute: str, strategy: str) -> dict[float, Measures]:
    """Return measures by p₀, with the options of [RFPP]; every curve begins without additions."""
    plain = {
        setting.percent: measured
        for setting, measured in found.items()
        if setting in (Setting(attribute, strategy, setting.percent), Setting(attribute, None, 0.0))
    }
    return dict(sorted(plain.items()))


def _loss_and_inference(axis: Any, curve: dict[float, Measures]) -> None:
    """Plot ΔR on the left as in the paper, balanced precision of both inferrers on the right."""
    axis.plot(list(curve), [m["dRMSE"] for m in curve.values()], "o-", color="tab:blue", markersize=3)
    axis.axhline(0, color="tab:red", linewidth=0.8)
    axis.set_xlabel("p₀, %")
    axis.set_ylabel("ΔR (blue)")
    right = axis.twinx()
    for inferrer, style in (("naive", "s-"), ("adaptive", "s--")):
        values = [abs(m[f"BPre {inferrer}"] - 0.5) for m in curve.values()]
        right.plot(list(curve), values, style, color="tab:green", markersize=3, label=inferrer)
    right.set_ylabel("|BPre − 0.5| (green)")
    right.legend(fontsize="small")
