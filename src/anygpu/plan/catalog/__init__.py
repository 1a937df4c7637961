"""GPU prices by cloud and region: packaged tables, the organisation's changes to them, and fast searches."""

from anygpu.plan.catalog.discounts import NO_POLICY, CatalogPolicy
from anygpu.plan.catalog.layers import CatalogLayers, candidates_in, load_catalog
from anygpu.plan.catalog.prices import Catalog, CatalogOffer, CatalogOffers, MachineShape
from anygpu.plan.catalog.tables import PriceRow
from anygpu.plan.catalog.terms import CloudTerms, find_clouds, terms

__all__ = [
    "NO_POLICY",
    "Catalog",
    "CatalogLayers",
    "CatalogOffer",
    "CatalogOffers",
    "CatalogPolicy",
    "CloudTerms",
    "MachineShape",
    "PriceRow",
    "candidates_in",
    "find_clouds",
    "load_catalog",
    "terms",
]
