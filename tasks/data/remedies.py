"""Say what the owner can change after the gate has refused a release."""

import datetime

from tasks import methods
from tasks.config import ReleaseConfig


def of_settings(config: ReleaseConfig, failed: list[str], snapshot: datetime.date) -> str:
    """Say which settings help a release that stands alone, or begins a series."""
    return f"{_by_settings(config, failed)}; the report says more{_next_k(config, failed, snapshot)}"


def in_series(newcomers: int) -> str:
    """Say what the owner can change where other groups are published already: k and method cannot change any more."""
    wait = f"raise series.min_cohort above {newcomers:,}, so that they wait for others and give the gate more evidence"
    return f"{wait if newcomers else 'find out what changed the published groups'}; the report says more"


def _next_k(config: ReleaseConfig, failed: list[str], snapshot: datetime.date) -> str:
    """Say how to find out which k would pass, where larger groups may help, and which limit is tighter for them."""
    if not methods.method(config).publishes_groups or not methods.depends_on_k(failed):
        return ""
    command = f"`murmur run CONFIG --snapshot {snapshot} --find-k`"
    tighter = sorted(set(failed) & methods.TIGHTER_WITH_K)
    note = f" (the limit of {' and '.join(tighter)} is tighter for larger k)" if tighter else ""
    plan = f"`murmur plan CONFIG --snapshot {snapshot}` finds the cheapest setting that does"
    return f"; {command} measures which larger k would pass{note}, and {plan}"


def _by_settings(config: ReleaseConfig, failed: list[str]) -> str:
    """Say what the owner can change. Where only attribute inference fails, larger groups help little: tastes reveal
    nearly as much of large groups as of small ones."""
    if failed == ["attribute-inference"]:
        named = ", ".join(f'"{name}"' for name in config.protected_attributes)
        hide = f"set padding.neutral = [{named}], so that predictions do not depend on it"
        neutral = [
            name
            for name, other in methods.registered().items()
            if "padding.neutral" not in other.incompatible
        ]
        if config.privacy.method not in neutral:
            hide = f"use method {' or '.join(neutral)} with padding.neutral = [{named}]"
        elif config.padding.neutral:
            hide = (
                "use a larger privacy.k, a smaller padding.rank, or fewer classes (source.attributes.groups)"
            )
        return f"{hide}, or remove the attribute from privacy.protect"
    return methods.method(config).remedy
