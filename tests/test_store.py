"""The folder of a model: what is saved comes back, and nothing else ever does."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from latentgraph.errors import InputError
from latentgraph.store import Parts, load, manifest, save

FLOATS = [0.1, -0.0, 5e-324, 1.7976931348623157e308, 2**53 + 1, 1 / 3]
DTYPES = [
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64),
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
]


def archive(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def parts_of_a_model() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    return {
        "model.safetensors": {"layer.weight": torch.randn(5, 3, generator=generator), "steps": torch.tensor(7)},
        "preprocessing.json": {"columns": ["Größe", "年齢", 'a"b\\'], "means": FLOATS, "none": None, "yes": True},
        "config.json": {"k": 5, "nested": [{"": []}]},
        "graph.npz": archive(indices=np.arange(6), data=np.linspace(0, 1, 6)),
        "card.md": "# Karte für 年齢\n".encode(),
    }


def assert_equal(parts: Parts, saved: dict[str, Any]) -> None:
    assert parts.names() == list(saved)
    for name, part in saved.items():
        if isinstance(part, bytes):
            assert parts.raw(name) == part
        elif name.endswith(".json"):
            assert repr(parts.json(name)) == repr(part)  # tells -0.0 from 0.0, and 1 from True
        else:
            tensors = parts.tensors(name)
            assert tensors.keys() == part.keys()
            for key, tensor in part.items():
                assert tensors[key].dtype == tensor.dtype
                assert torch.equal(tensors[key], tensor)


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest as somebody would who knows how it is made: its own SHA-256 fits again."""
    path = folder / manifest.MANIFEST
    content = json.loads(path.read_bytes())
    del content["sha256"]
    change(content)
    path.write_text(json.dumps(content | {"sha256": manifest._own_sha256(content)}))


def put(folder: Path, name: str, data: bytes) -> Path:
    """Put `data` in the place of a part, and have the manifest agree."""
    entry = json.loads((folder / manifest.MANIFEST).read_bytes())["parts"][name]
    (folder / entry["file"]).write_bytes(data)
    new = {**entry, "size": len(data), "sha256": manifest.sha256(data)}
    rewrite(folder, lambda content: content["parts"].update({name: new}))
    return folder / entry["file"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path / "model", parts_of_a_model())
    return tmp_path / "model"


def test_round_trip(folder: Path) -> None:
    saved = parts_of_a_model()
    assert_equal(load(folder), saved)
    assert load(folder).arrays("graph.npz")["data"].tolist() == np.linspace(0, 1, 6).tolist()
    for path in folder.glob("*.lg*"):
        assert manifest.sha256(path.read_bytes())[:8] in path.name
    assert len(list(folder.iterdir())) == len(saved) + 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_every_dtype_come_back_bit_by_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    values = torch.tensor([0.0, 1.0, 3.5, 100.0]).to(dtype)
    tensors = {"": values, "Größe/年": values.reshape(2, 2).t(), "scalar": values[1], "empty": values[:0].reshape(0, 3)}
    tensors["tied"] = tensors["view"] = values[1:]
    save(tmp_path, {"ü ä/..": b"", "model.safetensors": tensors, "none.safetensors": {}})
    assert_equal(load(tmp_path), {"ü ä/..": b"", "model.safetensors": tensors, "none.safetensors": {}})


def test_nan_and_gradients_in_tensors(tmp_path: Path) -> None:
    tensor = torch.tensor([math.nan, math.inf, -0.0], requires_grad=True)
    save(tmp_path, {"model.safetensors": {"a": tensor}})
    back = load(tmp_path).tensors("model.safetensors")["a"]
    assert not back.requires_grad
    assert back.view(torch.int32).tolist() == tensor.detach().view(torch.int32).tolist()


def test_a_new_model_takes_the_place_of_the_old_one(folder: Path) -> None:
    (folder / "notes.txt").write_text("not ours")
    (folder / "report-20240101-20240102.csv").write_text("not ours")
    (folder / "card-0123abcd.lg0123abcd.md").write_text("left by a killed saver")
    save(folder, {"config.json": 1})
    assert_equal(load(folder), {"config.json": 1})
    others = {path.name for path in folder.iterdir() if not path.name.startswith("config-")}
    assert others == {manifest.MANIFEST, "notes.txt", "report-20240101-20240102.csv"}


@pytest.mark.parametrize(
    ("name", "part", "message"),
    [
        ("config.json", {"a": math.nan}, "JSON"),
        ("config.json", {"a": math.inf}, "JSON"),
        ("config.json", {1: "a", "1": "b"}, "comes twice"),
        ("config.json", {1: "a"}, "read back"),
        ("config.json", {"a": (1, 2)}, "read back"),
        ("config.json", {"a": np.float32(1)}, "float32"),
        ("config.json", "\ud83d\ude00", "read back"),
        ("config.json", b"{", "not JSON"),
        ("model.safetensors", {"a": [1.0]}, "tensors"),
        ("model.safetensors", {"a": torch.eye(2).to_sparse()}, "dense"),
        ("model.safetensors", {"a": torch.zeros(1, dtype=torch.complex128)}, "complex128"),
        ("model.safetensors", {"__metadata__": torch.zeros(1)}, "safetensors"),
        ("model.safetensors", b"\x08" + bytes(7) + b"{]      ", "safetensors"),
        ("graph.npz", b"PK\x03\x04", "NumPy archive"),
        ("card.md", "text", "bytes"),
        ("card.md", pickle.dumps([]), "pickle"),
        ("", b"", "names"),
        ("a" * 101, b"", "names"),
    ],
)
def test_parts_that_would_not_come_back_are_refused_before_the_disk_is_touched(
    folder: Path, name: str, part: Any, message: str
) -> None:
    before = sorted(folder.iterdir())
    with pytest.raises(InputError, match=message):
        save(folder, {"first.md": b"", name: part})
    assert sorted(folder.iterdir()) == before
    assert_equal(load(folder), parts_of_a_model())


def test_json_keeps_every_text(tmp_path: Path) -> None:
    texts = [chr(code) for code in [*range(0x300), 0x2028, 0xD800, 0xDFFF, 0xFFFF, 0x1F600]]
    save(tmp_path, {"a.json": texts})
    assert load(tmp_path).json("a.json") == texts


def test_what_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not there"):
        load(tmp_path / "nowhere")
    (tmp_path / "some.csv").write_text("a,b")
    with pytest.raises(InputError, match=r"holds no latentgraph model.*'some.csv'"):
        load(tmp_path)
    with pytest.raises(InputError, match="is a file"):
        load(tmp_path / "some.csv")
    for below in ("some.csv", "some.csv/model"):
        with pytest.raises(InputError, match="is a file or lies below one"):
            save(tmp_path / below, {})
    save(tmp_path, {})
    with pytest.raises(InputError, match=r"no part 'config\.json'; it has: none"):
        load(tmp_path).json("config.json")


def test_another_format_names_the_version_that_wrote_it(folder: Path) -> None:
    rewrite(folder, lambda content: content.update(format=9, latentgraph="9.1.0"))
    with pytest.raises(InputError, match=r"latentgraph '9.1.0' in format 9; this is .* Install the version"):
        load(folder)


@pytest.mark.parametrize(
    "file",
    [
        "../{}",
        "/etc/passwd",
        "..",
        ".",
        "",
        "manifest.json",
        "sub/{}",
        "..\\{}",
        "{}\n",
        "{}\0",
        "C:{}",
        None,
        3,
        ["{}"],
    ],
)
def test_a_manifest_cannot_lead_out_of_the_folder(folder: Path, file: Any) -> None:
    def change(content: dict[str, Any]) -> None:
        entry = content["parts"]["card.md"]
        entry["file"] = file.format(entry["file"]) if isinstance(file, str) else file

    card = next(folder.glob("card-*"))
    (folder.parent / card.name).write_bytes(card.read_bytes())
    rewrite(folder, change)
    with pytest.raises(InputError, match="did not write"):
        load(folder)


@pytest.mark.parametrize("pattern", ["card-*", manifest.MANIFEST])
def test_links_folders_and_pipes_are_no_parts(folder: Path, pattern: str) -> None:
    (path,) = folder.glob(pattern)
    outside = folder.parent / "outside"
    os.replace(path, outside)
    makers: list[Callable[[], None]] = [lambda: path.symlink_to(outside), lambda: os.mkfifo(path), path.mkdir]
    for make in makers:
        path.unlink(missing_ok=True)
        make()
        with pytest.raises(InputError, match="a link, a folder or a device"):
            load(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.pop("parts"),
        lambda content: content.pop("latentgraph"),
        lambda content: content.update(latentgraph=1),
        lambda content: content.update(format=True),
        lambda content: content.update(format=2.0),
        lambda content: content.update(parts=[]),
        lambda content: content.update(more=1),
        lambda content: content["parts"].update(a=None),
        lambda content: content["parts"]["card.md"].pop("size"),
        lambda content: content["parts"]["card.md"].update(mode=0o777),
        lambda content: content["parts"]["card.md"].update(size=True),
        lambda content: content["parts"]["card.md"].update(size=-1),
        lambda content: content["parts"]["card.md"].update(size=10**30),
        lambda content: content["parts"]["card.md"].update(size=20.0),
        lambda content: content["parts"]["card.md"].update(sha256="0" * 63),
        lambda content: content["parts"]["card.md"].update(sha256=None),
    ],
)
def test_a_manifest_with_wrong_fields_is_refused(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    rewrite(folder, change)
    with pytest.raises(InputError, match=re.escape(str(folder))):
        load(folder)


def test_huge_files_are_refused_before_they_are_read(folder: Path) -> None:
    (path,) = folder.glob("card-*")
    os.truncate(path, 1 << 40)  # a sparse file: a terabyte that takes no room on the disk
    with pytest.raises(InputError, match=r"it has 1099511627776 bytes, but 20 were saved.*Restore"):
        load(folder)
    os.truncate(folder / manifest.MANIFEST, 1 << 40)
    with pytest.raises(InputError, match="at most"):
        load(folder)


class Payload:
    """A pickle of it creates a file when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", parts_of_a_model())
def test_pickles_are_never_opened(folder: Path, name: str) -> None:
    trap = folder.parent / "trap"
    torch_file = io.BytesIO()
    torch.save({"weight": torch.zeros(2), "trap": Payload(trap)}, torch_file)
    objects = archive(data=np.array([Payload(trap)], dtype=object))
    pickles = [pickle.dumps(Payload(trap), protocol) for protocol in range(6)]
    for data in [*pickles, torch_file.getvalue(), objects]:
        path = put(folder, name, data)
        if name == "card.md" and data in pickles[:2]:  # these look like any text, and come back as the bytes they are
            assert load(folder).raw(name) == data
        else:
            with pytest.raises(InputError, match=re.escape(path.name)):
                load(folder).arrays(name) if name == "graph.npz" else load(folder)
    assert not trap.exists()
    pickle.loads(pickles[0])
    assert trap.exists(), "the trap works"


def damage(folder: Path, rng: random.Random) -> None:
    """Do one of the things that disks, people and programs do to files."""
    files = sorted(path for path in folder.iterdir())
    path, other = rng.choice(files), rng.choice(files)
    data, text = path.read_bytes(), (folder / manifest.MANIFEST).read_text()
    position = rng.randrange(len(data))
    values = ["-1", "0", "1e999", "NaN", "9" * 5000, "null", '""', "[]", "{}", "true", "[" * 100_000, '"\\ud800"']
    match rng.randrange(13):
        case 0:
            path.write_bytes(data[:position] + bytes([data[position] ^ (1 << rng.randrange(8))]) + data[position + 1 :])
        case 1:
            path.write_bytes(data[:position])
        case 2:
            path.write_bytes(data + rng.randbytes(rng.randrange(1, 20)))
        case 3:
            path.write_bytes(rng.randbytes(len(data)))
        case 4:
            path.unlink()
        case 5:
            path.write_bytes(other.read_bytes())
            other.write_bytes(data)
        case 6:
            path.unlink()
            path.mkdir()
        case 7:
            path.write_bytes(data[:position] + data[position + rng.randrange(1, 9) :])
        case 8:  # another value in the manifest
            found = rng.choice(list(re.finditer(r'(?<=: )("[^"]*"|\d+)', text)))
            (folder / manifest.MANIFEST).write_text(text[: found.start()] + rng.choice(values) + text[found.end() :])
        case 9:  # another key
            found = rng.choice(list(re.finditer(r'"([^"]*)": ', text)))
            (folder / manifest.MANIFEST).write_text(text[: found.start(1)] + "format" + text[found.end(1) :])
        case 10:  # a key twice
            line = rng.choice(re.findall(r'\s*"[^"]*": (?:"[^"]*"|\d+)', text))
            (folder / manifest.MANIFEST).write_text(text.replace(line, f"{line},{line}", 1))
        case 11:  # another layout, which changes nothing
            (folder / manifest.MANIFEST).write_text(json.dumps(json.loads(text), indent=rng.choice([None, 0, 7])))
        case 12:  # agreeing manifest, bad part
            name = rng.choice(["model.safetensors", "preprocessing.json", "config.json"])
            put(folder, name, rng.choice([b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":1,"a":2}', rng.randbytes(99)]))


def test_a_damaged_folder_loads_as_saved_or_not_at_all(tmp_path: Path) -> None:
    rng = random.Random(0)
    saved = parts_of_a_model()
    save(tmp_path, saved)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    messages = []
    for _ in range(1000):
        damage(tmp_path, rng)
        try:
            assert_equal(load(tmp_path), saved)
        except InputError as error:
            messages.append(str(error))
        for path, data in files.items():
            if path.is_dir():
                path.rmdir()
            path.write_bytes(data)
    assert all(str(tmp_path) in message and len(message) < 1000 for message in messages)
    assert 850 <= len(messages) < 1000, "a new layout, or a part exchanged with itself, changes nothing"
