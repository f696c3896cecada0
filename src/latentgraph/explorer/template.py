"""The HTML around the data: one file, no address in it, and a policy that forbids to open one."""

from __future__ import annotations

import base64
import hashlib
import html
from importlib import resources

from latentgraph.errors import InputError

FRONT_END = ("explorer.js", "explorer.css")


def document(title: str, data: bytes) -> str:
    """The page. Scripts and styles run only if their hash is in the policy: nothing in the data can become one."""
    script, style = assets()
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(title)}</title>\n"
        f"<style>{style}</style>\n"
        "</head>\n<body>\n"
        "<noscript>This page draws a graph and needs JavaScript. It opens no connection.</noscript>\n"
        f'<script type="application/octet-stream" id="data">{base64.b64encode(data).decode()}</script>\n'
        f"<script>{script}</script>\n"
        "</body>\n</html>\n"
    )


def assets() -> tuple[str, str]:
    """Script and style of the front end, which `make explorer` builds and the wheel contains."""
    folder = resources.files("latentgraph.explorer") / "assets"
    script, style = (folder / name for name in FRONT_END)
    if not (script.is_file() and style.is_file()):
        raise InputError(
            "the explorer's front end is not built. Install Node.js (18 or later, with npm) and run `make explorer` in "
            "a clone of the repository, or install latentgraph from a wheel, which contains it."
        )
    return script.read_text("utf-8"), style.read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
