"""Figures 4 to 8 of Deriving Private Information from Randomly Perturbed Ratings (paper 001) as plots."""

from pathlib import Path

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
LINES = ("-", "--", ":")  # told apart without colours


def plot(tables: dict[str, Table], directory: Path) -> None:
    """Write those of fig4.svg … fig8.svg that were measured: Gaussian noise on the left, uniform on the right."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "murmuration"
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
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
        pyplot.tight_layout()
        pyplot.savefig(directory / f"{number}.svg", metadata={"Date": None})
        pyplot.close()
