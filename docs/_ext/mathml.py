"""Formulas as MathML, made at build time by docutils: the pages need neither a script nor the network."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

CORRECTIONS = [
    (  # docutils puts the index of a letter with a hat or a tilde below it
        re.compile(r'<munderover>\s*(<mi>\w</mi>)(.*?)(<mo stretchy="false">[ˆ˜]</mo>)\s*</munderover>', re.DOTALL),
        r'<msub><mover accent="true">\1\3</mover>\2</msub>',
    ),
    (re.compile("<mo>&ApplyFunction;</mo>"), '<mspace width="0.17em"></mspace>'),  # log p, not logp
    (re.compile(r'<mo(?: class="mathopen")?>\|</mo>'), '<mo stretchy="false" lspace="0" rspace="0">|</mo>'),
]


def to_mathml(tex: str, as_block: bool, node: nodes.Node) -> str:
    tex = re.sub(r"\\Big(?![a-z])", r"\\Bigl", tex.replace(r"\dots", r"\ldots"))  # commands docutils does not know
    try:
        mathml = tex2mathml(tex, as_block=as_block)
    except MathError as error:
        logger.warning("formula %r: %s", tex, error, location=node)
        return f"<code>{tex}</code>"
    for pattern, replacement in CORRECTIONS:
        mathml = pattern.sub(replacement, mathml)
    return mathml


def inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(to_mathml(node.astext(), False, node))
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula">{to_mathml(node.astext(), True, node)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True}
