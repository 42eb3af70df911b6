"""Rows of a data set, from the hub or from a file of one's own, with numbers for error messages."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path


def hub_rows(name: str, config: str | None, split: str) -> list[tuple[int, dict]]:
    """The rows of a data set on the hub, or of a folder that is one, numbered from 1."""
    import datasets  # takes seconds, and a local file does not need it
    from huggingface_hub import dataset_info

    why = ""
    if not datasets.config.HF_HUB_OFFLINE and not Path(name).is_dir():
        try:
            dataset_info(name, timeout=5)
        except Exception as error:  # many kinds: no such name, no network, no access
            why = type(error).__name__  # datasets would go on trying for half a minute
            datasets.config.HF_HUB_OFFLINE = True  # so it looks for a copy from an earlier time
    try:
        return list(enumerate(datasets.load_dataset(name, config, split=split), 1))
    except Exception as error:
        message = f"cannot load {name} from the hub ({why or error})"
        raise ValueError(f"{message}; go online, or give a local copy with --data FILE") from error


def file_rows(path: str) -> list[tuple[int, dict]]:
    """The rows of a .json, .jsonl or .csv file (each also .gz), or of a .parquet file.

    Numbers count from 1: lines in JSONL, rows without the header in CSV. ValueError says in one
    line what is wrong.
    """
    name = Path(path).name.lower()
    kind = Path(name.removesuffix(".gz")).suffix
    if kind not in (".json", ".jsonl", ".csv", ".parquet"):
        raise ValueError(
            f"{path} is none of .json, .jsonl, .csv (each also .gz) and .parquet; in .jsonl, each "
            'line is a row, such as {"prompt": "..."}, with the fields that the task needs'
        )
    try:
        with (gzip.open if name.endswith(".gz") else open)(path, "rb") as file:
            rows = list(_rows(file, kind))
    except (OSError, EOFError, zlib.error, ValueError, RecursionError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"cannot read {path}: {why}") from error
    if not rows:
        raise ValueError(f"{path} holds no rows: one for each problem is needed")
    for number, row in rows:
        if not isinstance(row, dict):
            raise ValueError(f"{path}, row {number}: an object with named fields is needed")
    return rows


def fifths(rows: list, split: str) -> list:
    """A split of a file of one's own: the last fifth is test, the fifth before it dev."""
    if len(rows) < 3:
        raise ValueError(f"--data holds {len(rows)} problems: train, dev, test need 3")
    fifth = max(len(rows) // 5, 1)
    ends = {"train": (0, -2 * fifth), "dev": (-2 * fifth, -fifth), "test": (-fifth, None)}
    return rows[slice(*ends[split])]


def _rows(file, kind: str) -> Iterator[tuple[int, dict]]:
    if kind == ".parquet":
        from pyarrow import parquet

        yield from enumerate(parquet.read_table(file).to_pylist(), 1)
        return
    text = file.read().decode("utf-8-sig")
    if kind == ".json":
        rows = json.loads(text)
        yield from enumerate(rows if isinstance(rows, list) else [rows], 1)
    elif kind == ".jsonl":
        for number, line in enumerate(text.split("\n"), 1):
            try:
                yield from [(number, json.loads(line))] if line.strip() else []
            except (ValueError, RecursionError) as error:
                raise ValueError(f"row {number} is not one JSON object ({error})") from error
    else:
        csv.field_size_limit(1 << 30)
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        for number, row in enumerate(reader, 1):
            if None in row or None in row.values():
                raise ValueError(f"row {number} has not the header's fields")
            yield number, row
