"""DP-synthetic: publish rows drawn from statistics with noise, under user-level differential privacy."""

from tasks.config import ReleaseConfig
from tasks.kernels.privacy_accounting import allowance
from tasks.methods._base import Graph, Method, Words

# Below these, tables of noise would have millions of entries, and the noise would exceed any data.
LEAST_FOR_CHOICE, LEAST_FOR_A_PART = 2e-5, 1e-7
WANTS_RECORDS = (
    "uses ratings for noisy sums only, so nobody's row is published that made-up ratings could disguise"
)


def _steps(config: ReleaseConfig) -> Graph:
    """Return the graph of the steps: only `statistics` reads ratings."""
    return {"ingest": (), "statistics": ("ingest",), "synthesis": ("statistics",)}


def _check(config: ReleaseConfig) -> None:
    """Refuse a release without a budget: there is no amount that suits everybody."""
    if config.privacy.budget is None:
        raise ValueError(
            "privacy.budget: method 'dp-synthetic' needs a budget; add the table [privacy.budget] with epsilon "
            "(such as 3.0) and delta (such as 1e-5)"
        )
    budget, chosen = config.privacy.budget, config.synthesis
    rho = allowance(budget.epsilon, budget.delta, budget.releases).rho
    smallest = min(chosen.totals_share, chosen.ratings_share, chosen.pairs_share)
    if rho * chosen.choice_share < LEAST_FOR_CHOICE or rho * smallest < LEAST_FOR_A_PART:
        raise ValueError(
            f"privacy.budget: a release may spend rho = {rho:.2g}, with which nothing can be measured; raise epsilon, "
            "lower releases, or raise the smallest share of [synthesis]"
        )


METHOD = Method(
    name="dp-synthetic",
    summary="made-up rows drawn from noisy statistics, with user-level differential privacy",
    unit="synthetic",
    steps=_steps,
    words=Words(
        publishes="No row belongs to a person. Sums over all people were measured with random noise, and made-up rows "
        "were drawn from these noisy sums alone. Whether any one person was in the data hardly changes what is "
        "published (user-level differential privacy).",
    ),
    remedy="raise privacy.budget.epsilon if your policy allows it, or choose another method",
    tables=("synthesis",),
    incompatible={
        "padding.neutral": "fits no model of people, so there are no predictions to make neutral",
        "obfuscation": WANTS_RECORDS,
    },
    check=_check,
    plot_marker="*",
)
