"""The README's Python runs as it stands there."""

import re
from pathlib import Path


def test_readme_code_runs() -> None:
    """Broken: the first thing a newcomer pastes fails."""
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    probability = names["probability"]
    assert tuple(probability.shape) == (200, 3)  # type: ignore[attr-defined]
