"""eval.py --html on made-up runs: python -m pytest tests/test_page.py

`python -m pytest -m browser tests/test_page.py` opens pages in headless Chromium. That takes
`pip install playwright` and a Chromium: one in the PATH, or `playwright install chromium`.
"""

import functools
import json
import re
import shutil
import time
from pathlib import Path

import helpers
import pytest

import eval as evaluation

EVIL = "</script><script>document.title = 'it ran'</script><!--<script><b>&amp;\ud800"
refused = functools.partial(helpers.refused, program=evaluation)


def sample(step: int, turn: int, number: int, agents: int, text: str) -> dict:
    """A line of samples.jsonl. The later, the better, and number 0 is the worst."""
    responses = [f"def part_{agent}():\n    return {step}  # {text}" for agent in range(agents)]
    parts = {"tests": 1.0 * number, "length": -0.5, "agent/0": 0.5 * step, "metric/pass": 1.0}
    return {
        "step": step,
        "task_id": f"problem {step}",
        "turn": turn,
        "prompts": [f"turn {turn}: write part {agent} {text}" for agent in range(agents)],
        "responses": responses,
        "reward": number - 0.5 + 0.5 * step / agents,
        "parts": parts,
    }


def write_run(path: Path, steps: int = 3, agents: int = 2, turns: int = 1, text: str = "") -> Path:
    """Write a finished run: a dev evaluation, and the shares of two schemes."""
    path.mkdir(parents=True)
    flags = {"task": "coop", "model": ["tiny"], "num_agents": agents, "turns": turns}
    flags |= {"seed": 0, "max_steps": steps, "data": text}
    (path / "args.json").write_text(json.dumps({"args": flags, "command": f"python {text}"}))
    rows = []
    lines = []
    for step in range(steps):
        share = (step + 1) / steps
        schemes = {"scheme/filter": share, "scheme/unused": 1 - share}
        rows.append({"step": step, "return": share, "kl/0": float("nan"), **schemes})
        for turn in range(turns):
            for number in range(2 ** (turn + 1)):
                lines.append(sample(step, turn, number, agents, text))
    rows.append({"step": steps - 1, "dev/return": 0.5, "dev/return_se": 0.1})
    ends = {}
    examples = {}
    for when, value in {"before": 0.25, "after": 0.75}.items():
        ends[when] = {"return": [value] * 4, "greedy/return": [value, 1, 1, 1]}
        examples[when] = sample(4 * (when == "after"), turns - 1, 1, agents, text)
    measures = {"return": 0.25, "return_se": 0.1, "greedy/return": 0.5, "metric/pass": 0.5}
    summary = {"steps": steps, "before": measures, "after": measures | {"return": 0.75}}
    summary |= {"returns": ends, "example": examples}
    for name, records in {"metrics": rows, "samples": lines, "summary": [summary]}.items():
        suffix = "json" if name == "summary" else "jsonl"
        content = "".join(json.dumps(record) + "\n" for record in records)
        (path / f"{name}.{suffix}").write_text(content)
    return path


def page_of(*runs: Path) -> Path:
    evaluation.main(["--html", *map(str, runs)])
    return runs[0].parent / "page.html"


def data_of(page: Path) -> list[dict]:
    """Return what the script holds of the runs."""
    [line] = re.findall(r"^ *const RUNS = (.*);$", page.read_text(), re.MULTILINE)
    return json.loads(line)


# --- the file -------------------------------------------------------------------------------------


def test_the_page_holds_the_runs_and_asks_no_network(tmp_path, capsys):
    run = write_run(tmp_path / "run", turns=2)
    with (run / "samples.jsonl").open("a") as file:  # a kill cut it off
        file.write('{"step": 3, "re')
    other = write_run(tmp_path / "other", agents=3)
    for name in ("samples.jsonl", "summary.json"):
        (other / name).unlink()
    page = page_of(run, other)
    assert capsys.readouterr().out == f"page: {page}\n"
    [first, second] = data_of(page)
    assert len(first["samples"]) == 3 * (2 + 4)
    assert first["prompts"] == [[f"turn {t}: write part {a} " for a in (0, 1)] for t in (0, 1)]
    assert first["samples"][-1]["prompts"] == 1
    assert first["summary"]["example"]["after"]["step"] == 4
    assert first["record"]["args"]["model"] == ["tiny"]  # and not its path on this machine
    assert (second["samples"], second["summary"]) == ([], {})
    text = page.read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"(?:src|href)=|https?://(?!www\.w3\.org/2000/svg)", text)


def test_no_text_of_a_run_leaves_the_script(tmp_path):
    plain = page_of(write_run(tmp_path / "a" / "run")).read_text()
    page = page_of(write_run(tmp_path / "b" / "run", text=EVIL))
    assert data_of(page)[0]["samples"][0]["responses"][0].endswith(EVIL)
    assert page.read_text().count("<") == plain.count("<")
    assert not re.search("innerHTML|outerHTML|insertAdjacent|document.write|eval\\(", plain)


def test_the_page_replaces_a_page_and_nothing_else(tmp_path, capsys):
    run = write_run(tmp_path / "run")
    before = page_of(run).read_text()
    shutil.rmtree(run)
    page = page_of(write_run(run, text="new"))
    assert page.read_text() != before
    page.write_text("<!doctype html> mine")
    assert "page.html is not a page of --html" in refused(capsys, "--html", run)
    assert page.read_text() == "<!doctype html> mine"


def test_what_is_no_run_or_damaged_is_refused(tmp_path, capsys):
    assert "there is no run (no" in refused(capsys, "--html", tmp_path)
    assert "--html does not go with --limit" in refused(capsys, "--html", "x", "--limit", "3")
    run = write_run(tmp_path / "run")
    (run / "samples.jsonl").write_text('{"step": 0}\n')
    assert "samples.jsonl is damaged" in refused(capsys, "--html", run)
    assert not (tmp_path / "page.html").exists()


# --- in a browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright")
    with playwright.sync_playwright() as starter:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        try:
            started = starter.chromium.launch(executable_path=program, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no Chromium: {error}")
        yield started
        started.close()


@pytest.fixture
def opened(browser):
    """A function that opens a page. No page may have an error or ask for another file."""
    tab = browser.new_page(viewport={"width": 1366, "height": 768})
    problems = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda message: problems.append(message.text))
    tab.on("request", lambda request: problems.append(request.url))

    def open_page(*runs: Path):
        page = page_of(*runs)
        tab.goto(page.as_uri())
        assert problems.pop(0) == page.as_uri()
        return tab

    yield open_page
    tab.close()
    assert problems == []


@pytest.mark.browser
def test_the_arrows_move_the_slider_and_what_changed_is_marked(opened, tmp_path):
    tab = opened(write_run(tmp_path / "run", turns=2))
    assert tab.text_content("#step") == "step 0 of 2"
    tab.focus("#slider")  # which would move by itself, too
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):  # the last step is 2
        tab.keyboard.press(key)
    assert tab.text_content("#step") == "step 1 of 2"
    assert tab.input_value("#slider") == "1"
    assert tab.locator("#samples .removed mark").all_text_contents() == ["0", "0"]
    assert tab.locator("#samples .added").all_text_contents() == ["    return 1  # "] * 2
    bars = tab.locator("#samples .bar b").all_text_contents()
    assert bars == ["0", "0.25", "0.75", "-0.25"]  # the means, then the best one first
    tab.click("text=turn 1")
    tab.click("text=rank 4")
    assert "turn 1: write part 0" in tab.text_content("#samples .prompt")
    assert tab.text_content("#samples [aria-pressed=true].bar b") == "-0.25"
    tab.uncheck("#marked")
    assert tab.locator("#samples .added").count() == 0
    assert tab.locator("#heldout .added").count() == 2


@pytest.mark.browser
def test_texts_stay_texts(opened, tmp_path):
    tab = opened(write_run(tmp_path / "<b>run", text=EVIL))
    assert tab.title().endswith("<b>run")
    assert tab.locator("b b, .text b, .text script").count() == 0
    shown = tab.locator("#samples .response").first.text_content()
    assert shown.endswith(EVIL)


@pytest.mark.browser
def test_runs_of_every_kind_stand_beside_each_other(opened, tmp_path):
    runs = [write_run(tmp_path / "two"), write_run(tmp_path / "three", agents=3)]
    runs += [write_run(tmp_path / "alone", agents=1), write_run(tmp_path / "bare", steps=1)]
    for name in ("samples.jsonl", "summary.json"):
        (runs[3] / name).unlink()
    (runs[3] / "metrics.jsonl").write_text('{"step": 0, "return": 0.5}\n{"step": 1, "ret')
    tab = opened(*runs)
    cards = tab.locator("#samples > .card")
    assert [cards.nth(i).locator(".response").count() for i in range(4)] == [2, 3, 1, 0]
    assert "no samples.jsonl" in cards.nth(3).text_content()
    assert "not finished" in tab.locator("#heldout > .card").nth(3).text_content()
    assert tab.locator("#charts svg").count() == 2 + 3  # the bare one has no schemes
    fills = set()
    for path in tab.locator("#charts path[stroke=white]").all():
        fills.add(path.get_attribute("fill"))
    assert len(fills) == 2  # a color for each scheme
    tab.locator("#charts select").first.select_option("scheme/unused")
    tab.click("#charts svg >> nth=0")
    assert tab.text_content("#step") == "step 1 of 2"


@pytest.mark.browser
def test_500_steps_stay_quick(opened, tmp_path):
    run = write_run(tmp_path / "run", steps=500, turns=2, text="x = 1\n" * 40)
    start = time.perf_counter()
    tab = opened(run)
    assert time.perf_counter() - start < 10
    start = time.perf_counter()
    for _ in range(100):
        tab.keyboard.press("ArrowRight")
    assert tab.text_content("#step") == "step 100 of 499"
    assert (time.perf_counter() - start) / 100 < 0.4  # seconds a step, on a busy machine
