"""Plot Figures 4 to 8 of [Zhang2006]."""

from pathlib import Path

from tasks.studies.svg_plots import open_pyplot, save_figure

Table = dict[str, dict[str, float | None]]

TITLES = {
    "fig4": "MovieLens, rated entries: SVD with EM against PCA",
    "fig5": "MovieLens, rated entries",
    "fig6": "MovieLens, all entries",
    "fig7": "Jester, rated entries",
    "fig8": "Jester, all entries",
}
NAMES = {
    "zscore-MAE": "SVD with EM",
    "zscore-MAE(PCA)": "PCA",
    "R-MAE": "k-means (R-MAE)",
    "P-MAE": "SVD with EM (P-MAE)",
    "MAE(SVD)": "prediction (MAE)",
}
LINES = ("-", "--", ":")  # distinguishable without colours


def plot(tables: dict[str, Table], directory: Path) -> None:
    """Write those of fig4.svg … fig8.svg that were measured: Gaussian noise on the left, uniform on the right."""
    pyplot = open_pyplot(directory)
    for number in sorted(TITLES.keys() & tables.keys()):
        _, axes = pyplot.subplots(1, 2, figsize=(9, 4), sharey=True)
        for axis, sign, noise in zip(axes, "σα", ("Gaussian noise", "uniform noise"), strict=True):
            rows = {row.split("=")[1]: values for row, values in tables[number].items() if f"{sign}=" in row}
            for column, line in zip(next(iter(rows.values())), LINES, strict=False):
                errors = [values[column] for values in rows.values()]
                axis.plot(list(rows), errors, line, marker="o", label=NAMES[column])
            axis.set_title(f"Fig {number[3:]}: {noise}")
            axis.set_xlabel(sign)
        axes[0].set_ylabel("mean absolute error" + (" of z-scores" if number == "fig4" else ""))
        axes[1].legend(fontsize="small")
        pyplot.suptitle(TITLES[number])
        save_figure(pyplot, directory / f"{number}.svg")
