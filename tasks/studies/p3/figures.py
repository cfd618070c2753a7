"""Plot Figures 3 to 6 of [Casino2015]; the data set decides between 3 and 4."""

from pathlib import Path
from typing import Any

from tasks.studies.p3.trials import CLIPPED, Measures, Setting
from tasks.studies.svg_plots import open_pyplot, save_figure


def plot(found: dict[Setting, dict[str, Measures]], directory: Path, *, unit: float) -> None:
    """Write fig3.svg (fig4 with Jester: SSE and DR over k and σ), fig5.svg (MAE over DR) and fig6.svg (SSE over DR)."""
    pyplot = open_pyplot(directory)
    name = "fig3" if unit == 1e3 else "fig4"
    figure, axes = pyplot.subplots(2, 2, figsize=(9, 6.5))
    for column, (method, label) in enumerate((("MDAV", "k"), ("GNA", "σ"))):
        amounts = [setting.amount for setting in _settings_of(found, method)]
        for row, (measure, scale) in enumerate((("SSE", unit), ("DR %", 1.0))):
            values = [found[setting][CLIPPED][measure] / scale for setting in _settings_of(found, method)]
            axes[row][column].plot(amounts, values, marker="o", markersize=3)
            axes[row][column].set_xlabel(label)
            axes[row][column].set_ylabel(measure if measure != "SSE" else f"SSE, {unit:.0e}")
            axes[row][column].set_title(method)
    figure.suptitle(f"Fig {name[3:]}: information loss and disclosure risk")
    save_figure(pyplot, directory / f"{name}.svg")
    for name, measure, scale in (("fig5", "MAE", 1.0), ("fig6", "SSE", unit)):
        _, axis = pyplot.subplots(figsize=(6.5, 4))
        _against_risk(axis, found, measure, scale)
        axis.set_title(f"Fig {name[3:]}: {measure} against disclosure risk")
        save_figure(pyplot, directory / f"{name}.svg")


def _settings_of(found: dict[Setting, dict[str, Measures]], method: str) -> list[Setting]:
    return [setting for setting in found if setting.method == method]


def _against_risk(axis: Any, found: dict[Setting, dict[str, Measures]], measure: str, scale: float) -> None:
    gammas = sorted({setting.gamma for setting in _settings_of(found, "V-MDAV")})
    series = {"MDAV": _settings_of(found, "MDAV"), "GNA": _settings_of(found, "GNA")}
    series |= {f"V-MDAV, γ={g:g}": [s for s in _settings_of(found, "V-MDAV") if s.gamma == g] for g in gammas}
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
