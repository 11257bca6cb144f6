"""Every kind of sampling: what tests of all of them go through."""

from __future__ import annotations

KINDS = {
    "uniform": {},
    "with replacement": {"replace": True},
    "by weight": {"weighted": True},
    "by weight with replacement": {"weighted": True, "replace": True},
    "LABOR": {"labor": True},
    "LABOR, induced": {"labor": True, "subgraph_type": "induced"},
    "LABOR, dependent": {"labor": True, "batch_dependency": 3},
    "disjoint": {"disjoint": True},
    "disjoint by weight": {"disjoint": True, "weighted": True},
    "disjoint, induced": {"disjoint": True, "subgraph_type": "induced"},
    "induced": {"subgraph_type": "induced"},
    "dependent": {"batch_dependency": 4},
    "dependent by weight": {"batch_dependency": 2, "weighted": True},
    "until": {"times": True},
    "until, with replacement": {"times": True, "replace": True},
    "before": {"times": True, "strictly_before": True},
    "last until": {"times": True, "temporal_strategy": "last"},
    "last before": {"times": True, "temporal_strategy": "last", "strictly_before": True},
    "until, induced": {"times": True, "subgraph_type": "induced"},
}


def options_of(kind):
    """(options of a sampler, whether its seeds have times)."""
    options = dict(KINDS[kind])
    return options, options.pop("times", False)
