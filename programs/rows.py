"""Read the rows of a data set from the hub or from a local file, with numbers for error messages.

`datasets` does not read local files here. Its import takes seconds, and its errors do not name the
row. It also changes values: the text 007 of a CSV file becomes the number 7.
"""

import csv
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path

from policies import Mistake


def hub_rows(name: str, config: str | None, split: str) -> list[tuple[int, dict]]:
    """Return the rows of a data set on the hub or in a folder, numbered from 1."""
    import datasets
    from huggingface_hub import dataset_info

    why = ""
    if not datasets.config.HF_HUB_OFFLINE and not Path(name).is_dir():
        try:
            dataset_info(name, timeout=5)
        except Exception as error:  # of many types: no such name, no network, no access
            why = type(error).__name__
            # Online, datasets would retry for half a minute. Offline, it looks for a cached copy.
            datasets.config.HF_HUB_OFFLINE = True
    try:
        return list(enumerate(datasets.load_dataset(name, config, split=split), 1))
    except Exception as error:
        raise Mistake(
            f"cannot load {name} from the hub ({why or error}); "
            "go online, or give a local copy with --data FILE"
        ) from error


def file_rows(path: str | None) -> list[tuple[int, dict]]:
    """Return the rows of a .json, .jsonl or .csv file (each also .gz), or of a .parquet file.

    Numbers count from 1: lines in JSONL, rows without the header in CSV. Raise ValueError, which
    says in one line what is wrong.
    """
    if path is None:
        raise Mistake("this task reads a file: give one with --data FILE")
    name = Path(path).name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix not in READERS:
        raise Mistake(
            f"{path} is none of .json, .jsonl, .csv (each also .gz) and .parquet; in .jsonl, each "
            'line is a row, such as {"prompt": "..."}, with the fields that the task needs'
        )
    try:
        with (gzip.open if name.endswith(".gz") else open)(path, "rb") as file:
            rows: list = list(READERS[suffix](file))
    except Exception as error:  # of many types: of the system, gzip, JSON, CSV and Parquet
        why = getattr(error, "strerror", None) or error
        raise Mistake(f"cannot read {path}: {why}") from error
    for number, row in rows:
        if not isinstance(row, dict):
            raise Mistake(f"{path}, row {number}: an object with named fields is needed")
        try:
            json.dumps(row, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair
            raise Mistake(f"{path}, row {number}: {error}") from error
    return rows


def fifths(rows: list, split: str) -> list:
    """Return a split of a local file: the last fifth is test, the fifth before it dev."""
    if len(rows) < 3:
        raise Mistake(f"--data holds {len(rows)} problems: train, dev, test need 3")
    fifth = max(len(rows) // 5, 1)
    ends = {"train": (0, -2 * fifth), "dev": (-2 * fifth, -fifth), "test": (-fifth, None)}
    return rows[slice(*ends[split])]


def _json(file) -> Iterator[tuple[int, object]]:
    yield from enumerate(json.load(file), 1)


def _jsonl(file) -> Iterator[tuple[int, object]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Mistake(f"row {number} is not one JSON object ({error})") from error
        yield number, row


def _csv(file) -> Iterator[tuple[int, dict]]:
    csv.field_size_limit(1 << 30)
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    reader = csv.DictReader(text, strict=True)
    names = reader.fieldnames or []
    if len({*names}) < len(names):
        raise Mistake("two fields of the header have one name")
    for number, row in enumerate(reader, 1):
        if None in row or None in row.values():
            raise Mistake(f"row {number} has not the header's fields")
        yield number, row


def _parquet(file) -> Iterator[tuple[int, dict]]:
    from pyarrow import parquet

    yield from enumerate(parquet.read_table(file).to_pylist(), 1)


READERS = {".json": _json, ".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}
