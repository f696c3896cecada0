"""The formats of the parts of a stored model: tensors, JSON, NumPy archives, plain bytes. None of them can run code.

The ending of a part's name says its format. A pickle is refused everywhere, and nothing here can open one.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from latentgraph.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
ADVICE = "Restore it from a copy, or fit the model again."


def encode(name: str, value: Any) -> bytes:
    """`value` as the bytes of the part `name`; only what will read back equal is let through."""
    if isinstance(value, bytes):
        _decode(name, value)
        return value
    ending = _ending(name)
    if ending == ".json":
        return _encode_json(name, value)
    if ending == ".safetensors":
        return _encode_tensors(name, value)
    raise InputError(
        f"the part {name!r} is a {type(value).__name__}, but only bytes can be kept under this name. "
        "Give bytes, or a name that ends in .safetensors (for tensors) or .json."
    )


def recognise(name: str, source: object, data: bytes) -> None:
    """Refuse what is plainly not in the format that `name` says. `source` is the file, for the message."""
    ending = _ending(name)
    if ending == ".json":
        read_json(source, data)
    elif ending == ".safetensors":
        header = int.from_bytes(data[:8], "little")
        if data[8:9] != b"{" or header > len(data) - 8:
            raise InputError(f"{source} is not in the safetensors format. {ADVICE}")
    elif ending == ".npz":
        if not data.startswith(_ZIP):
            raise InputError(f"{source} is not a NumPy archive. {ADVICE}")
    elif _PICKLE.match(data) or data.startswith(_ZIP):
        raise InputError(
            f"{source} is a pickle or an archive, which could run code when opened: it is refused. {ADVICE}"
        )


def read_json(source: object, data: bytes) -> Any:
    """Strict JSON: UTF-8, no key twice, no NaN."""
    try:
        return json.loads(data.decode(), object_pairs_hook=_each_key_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not JSON as latentgraph writes it ({error}). {ADVICE}") from None


def read_tensors(source: object, data: bytes) -> dict[str, Tensor]:
    """The tensors of a safetensors file, on the CPU."""
    from safetensors.torch import load

    try:
        return load(data)
    except Exception as error:  # a hostile header can make the parser fail in many ways
        raise InputError(f"{source} is not in the safetensors format ({error}). {ADVICE}") from None


def read_arrays(source: object, data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a NumPy archive; arrays of Python objects, which are pickles, are refused."""
    import numpy as np

    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("it has members that are not arrays")
    except Exception as error:  # zip, zlib and numpy each have their own exceptions
        raise InputError(f"{source} is not a NumPy archive of plain arrays ({error}). {ADVICE}") from None
    return arrays


def _decode(name: str, data: bytes) -> None:
    """Read given bytes once before they are kept: a folder must not hold what loading would refuse."""
    source = f"the part {name!r}"
    recognise(name, source, data)
    if _ending(name) == ".safetensors":
        read_tensors(source, data)
    elif _ending(name) == ".npz":
        read_arrays(source, data)


def _ending(name: str) -> str:
    return os.path.splitext(name)[1]


def _encode_json(name: str, value: Any) -> bytes:
    try:
        text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
        data = text.encode("utf-8", "backslashreplace")  # half of a surrogate pair becomes its JSON escape
        same = read_json(name, data) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the part {name!r} cannot be kept as JSON: {error}.") from None
    if not same:
        raise InputError(
            f"the part {name!r} would not read back from JSON as it is. "
            "Use dicts with strings as keys, lists rather than tuples, strings, numbers, booleans and None."
        )
    return data


def _encode_tensors(name: str, value: Any) -> bytes:
    import torch
    from safetensors.torch import save

    if not isinstance(value, Mapping) or not all(isinstance(tensor, torch.Tensor) for tensor in value.values()):
        raise InputError(f"the part {name!r} is not a mapping of names to tensors, which .safetensors stands for.")
    try:
        # Copies, because the format knows neither views nor weights that share their memory.
        dense = torch.contiguous_format
        data = save({key: tensor.detach().cpu().clone(memory_format=dense) for key, tensor in value.items()})
        same = read_tensors(name, data).keys() == value.keys()
    except Exception as error:  # dtypes, layouts and devices that the format does not have
        raise InputError(f"the part {name!r} cannot be kept as safetensors: {error}. Use dense tensors.") from None
    if not same:
        raise InputError(f"the part {name!r} has a tensor whose name the safetensors format keeps for itself.")
    return data


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("a key comes twice")
    return result


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a number of JSON")
