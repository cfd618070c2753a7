"""Figures 3 to 6 of paper 003 as plots; which of 3 and 4 it is, the data set decides."""

from pathlib import Path
from typing import Any

from tasks.studies.trials_p3 import CLIPPED, Measures, Setting


def plot(found: dict[Setting, dict[str, Measures]], directory: Path, *, unit: float) -> None:
    """Write fig3.svg (fig4 with Jester: SSE and DR over k and σ), fig5.svg (MAE over DR) and fig6.svg (SSE over DR)."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "murmuration"
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)

    def save(name: str) -> None:
        pyplot.tight_layout()
        pyplot.savefig(directory / f"{name}.svg", metadata={"Date": None})
        pyplot.close()

    name = "fig3" if unit == 1e3 else "fig4"
    figure, axes = pyplot.subplots(2, 2, figsize=(9, 6.5))
    for column, (method, label) in enumerate((("MDAV", "k"), ("GNA", "σ"))):
        amounts = [setting.amount for setting in _of(found, method)]
        for row, (measure, scale) in enumerate((("SSE", unit), ("DR %", 1.0))):
            values = [found[setting][CLIPPED][measure] / scale for setting in _of(found, method)]
            axes[row][column].plot(amounts, values, marker="o", markersize=3)
            axes[row][column].set_xlabel(label)
            axes[row][column].set_ylabel(measure if measure != "SSE" else f"SSE, {unit:.0e}")
            axes[row][column].set_title(method)
    figure.suptitle(f"Fig {name[3:]}: what is lost and who is found")
    save(name)
    for name, measure, scale in (("fig5", "MAE", 1.0), ("fig6", "SSE", unit)):
        _, axis = pyplot.subplots(figsize=(6.5, 4))
        _against_risk(axis, found, measure, scale)
        axis.set_title(f"Fig {name[3:]}: {measure} against disclosure risk")
        save(name)


def _of(found: dict[Setting, dict[str, Measures]], method: str) -> list[Setting]:
    return [setting for setting in found if setting.method == method]


def _against_risk(axis: Any, found: dict[Setting, dict[str, Measures]], measure: str, scale: float) -> None:
    gammas = sorted({setting.gamma for setting in _of(found, "V-MDAV")})
    series = {"MDAV": _of(found, "MDAV"), "GNA": _of(found, "GNA")}
    series |= {f"V-MDAV, γ={g:g}": [s for s in _of(found, "V-MDAV") if s.gamma == g] for g in gammas}
    for name, settings in series.items():
        measured = [found[setting][CLIPPED] for setting in settings]
        axis.plot(
            [m["DR %"] for m in measured],
            [m[measure] / scale for m in measured],
            marker="o",
            markersize=3,
            label=name,
        )
    axis.set_xlabel("DR, %")
    axis.set_ylabel(measure if scale == 1 else f"{measure}, {scale:.0e}")
    axis.legend(fontsize="small")
