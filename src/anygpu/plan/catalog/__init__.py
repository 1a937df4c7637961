"""What GPUs cost where: our own table, what the organisation changed about it, and a quick search in it."""

from anygpu.plan.catalog.book import Catalog, Shape
from anygpu.plan.catalog.candidates import Candidate, Candidates
from anygpu.plan.catalog.layers import Layers, load
from anygpu.plan.catalog.places import places_in
from anygpu.plan.catalog.policy import NO_POLICY, Policy
from anygpu.plan.catalog.rows import Row
from anygpu.plan.catalog.terms import Terms, clouds_named, terms

__all__ = [
    "NO_POLICY",
    "Candidate",
    "Candidates",
    "Catalog",
    "Layers",
    "Policy",
    "Row",
    "Shape",
    "Terms",
    "clouds_named",
    "load",
    "places_in",
    "terms",
]
