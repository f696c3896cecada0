"""Methods by name, for the estimators and the command line."""

from __future__ import annotations

from latentgraph.errors import InputError
from latentgraph.pretraining.contrastive import Contrastive
from latentgraph.pretraining.denoising import Denoising
from latentgraph.pretraining.links import Links
from latentgraph.pretraining.method import Method

METHODS: dict[str, type[Links] | type[Contrastive] | type[Denoising]] = {
    "links": Links,
    "contrastive": Contrastive,
    "denoising": Denoising,
}


def by_name(name: str) -> Method:
    """A method with its usual settings.

    >>> by_name("links")
    Links(held_out=0.1, asked=0.2, batch_size=65536)
    """
    if name not in METHODS:
        raise InputError(f"method={name!r} is not known; choose one of {', '.join(map(repr, METHODS))}.")
    return METHODS[name]()
