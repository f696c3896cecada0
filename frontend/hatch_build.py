"""Builds the explorer's front end when a wheel is made, where Node.js is; without it the wheel lacks the page alone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class FrontEnd(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if version == "editable" or (root / "src/latentgraph/explorer/assets/explorer.js").is_file():
            return
        npm = shutil.which("npm")
        if npm is None:
            self.app.display_warning("There is no npm: `latentgraph explore` will not be able to write pages.")
            return
        for arguments in (["ci", "--silent"], ["run", "--silent", "build"]):
            subprocess.run([npm, *arguments], cwd=root / "frontend", check=True)  # noqa: S603
