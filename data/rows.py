"""Rows of a data set, from the hub or from a file of one's own, with numbers for error messages."""

import csv
import gzip
import io
import json
import zlib
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
        raise ValueError(
            f"cannot load {name} from the hub ({why or error}); go online, or give a local copy "
            "with --data FILE"
        ) from error


def file_rows(path: str) -> list[tuple[int, dict]]:
    """The rows of a .json, .jsonl or .csv file (each also .gz), or of a .parquet file.

    Numbers count from 1: lines in JSONL, rows without the header in CSV. ValueError says in one
    line what is wrong, and in which row.
    """
    name = Path(path).name.lower()
    reader = _READERS.get(Path(name.removesuffix(".gz")).suffix)
    if reader is None:
        raise ValueError(
            f"{path} is none of .json, .jsonl, .csv (each also .gz) and .parquet; in .jsonl, each "
            'line is a row, such as {"prompt": "..."}, with the fields that the task needs'
        )
    try:
        with (gzip.open if name.endswith(".gz") else open)(path, "rb") as file:
            rows = reader(path, file)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise ValueError(f"cannot read {path}: its compressed data is damaged") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start})") from error
    if not rows:
        raise ValueError(f"{path} holds no rows: one for each problem is needed")
    for number, row in rows:
        if not isinstance(row, dict):
            raise ValueError(f"{path}, row {number}: an object with named fields is needed")
    return rows


def _read_json(path, file) -> list[tuple[int, dict]]:
    try:
        rows = json.loads(file.read().decode("utf-8-sig"))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON (one object per line is .jsonl): {error}") from error
    if not isinstance(rows, list):
        raise ValueError(f"{path}: a list of rows is needed, [{{...}}, ...]")
    return list(enumerate(rows, 1))


def _read_jsonl(path, file) -> list[tuple[int, dict]]:
    rows = []
    for number, line in enumerate(file.read().decode("utf-8-sig").split("\n"), 1):
        try:
            rows += [(number, json.loads(line))] if line.strip() else []
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"{path}, row {number}: not one JSON object ({error})") from error
    return rows


def _read_csv(path, file) -> list[tuple[int, dict]]:
    rows = []
    csv.field_size_limit(1 << 30)
    reader = csv.DictReader(io.StringIO(file.read().decode("utf-8-sig"), newline=""), strict=True)
    try:
        for number, row in enumerate(reader, 1):
            if None in row or None in row.values():
                wanted = len(reader.fieldnames)
                raise ValueError(f"{path}, row {number}: not the header's {wanted} fields")
            rows.append((number, row))
    except csv.Error as error:
        raise ValueError(f"{path}, row {len(rows) + 1}: {error}") from error
    return rows


def _read_parquet(path, file) -> list[tuple[int, dict]]:
    import pyarrow
    from pyarrow import parquet

    try:
        return list(enumerate(parquet.read_table(file).to_pylist(), 1))
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path} is not a Parquet file: {error}") from error


_READERS = {
    ".json": _read_json,
    ".jsonl": _read_jsonl,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
