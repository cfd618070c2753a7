"""Test method dp-synthetic: which release files it accepts, its graph, and what it promises."""

import pytest

from tasks import methods
from tasks.config import ReleaseConfig, parse
from tasks.data.profiles import Coding
from tasks.errors import UsageError

BUDGET = {"epsilon": 3.0, "delta": 1e-5}


def config(privacy: dict | None = None, **tables) -> ReleaseConfig:
    """Return a release by this method."""
    privacy = {"method": "dp-synthetic", "budget": BUDGET, **(privacy or {})}
    return parse({"release": {"name": "d"}, "source": {"format": "synthetic"}, "privacy": privacy, **tables})


class TestDeclaration:
    def test_only_one_step_reads_ratings(self):
        assert methods.graph(config()) == {
            "ingest": (),
            "statistics": ("ingest",),
            "synthesis": ("statistics",),
            "evaluate": ("ingest",),
            "validate": ("ingest", "statistics", "synthesis", "evaluate"),
            "publish": ("validate",),
        }

    def test_outside_series(self):
        assert config().series_mode == "independent"
        assert methods.least_size(config()) == 1
        assert set(methods.promised_parameters(config())) == {"epsilon", "delta", "per"}

    def test_promise(self):
        said = methods.promise_in_words(config())
        assert said == "user-level differential privacy, ε = 3 and δ = 1e-05 per release"

    def test_ratings_in_steps_of_the_scale(self):
        assert Coding.of(config()).encoding == "uint8"


class TestRefusals:
    @pytest.mark.parametrize(
        ("tables", "named"),
        [
            ({"privacy": {"budget": None}}, "privacy.budget: method 'dp-synthetic' needs a budget"),
            ({"privacy": {"method": "predictive-padded"}}, "has no differential privacy"),
            ({"privacy": {"budget": {"epsilon": 0.0}}}, "privacy.budget.epsilon"),
            ({"privacy": {"budget": {"epsilon": 1.0, "delta": 0.01}}}, "privacy.budget.delta"),
            ({"privacy": {"budget": {**BUDGET, "releases": 12}}}, "cannot share a budget per release"),
            (
                {"privacy": {"budget": {"epsilon": 0.01, "per": "year", "releases": 365}}},
                "nothing can be measured",
            ),
            ({"synthesis": {"choice_share": 1e-6}}, "nothing can be measured"),
            ({"series": {"mode": "sticky"}}, "releases nobody"),
            ({"obfuscation": {"attribute": "gender"}}, "obfuscation: method 'dp-synthetic'"),
            ({"padding": {"neutral": ["gender"]}}, "padding.neutral: method 'dp-synthetic'"),
            ({"synthesis": {"choice_share": 0.9, "ratings_share": 0.2}}, "leave nothing for pairs"),
        ],
    )
    def test_named(self, tables, named):
        with pytest.raises(UsageError) as refusal:
            config(**tables)
        assert named in str(refusal.value)

    def test_twelve_releases_share_a_budget(self):
        shared = config({"budget": {**BUDGET, "per": "year", "releases": 12}})
        assert shared.privacy.budget.releases == 12
