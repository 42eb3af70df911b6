"""eval.py page: python -m pytest tests/test_page.py

`python -m pytest -m browser tests/test_page.py` opens pages in headless Chromium. That takes
`pip install playwright` and a Chromium: one in the PATH, or `playwright install chromium`.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
from helpers import edit_json, read_json, refused_by_eval, run_eval, write_lines, write_run

EVIL = "</script><script>document.title = 'it ran'</script><!--<script><b>&amp;\ud800"


def sample(step: int, problem: int, turn: int, number: int = 0, **changes) -> dict:
    """Return a line of samples.jsonl, or of examples.jsonl."""
    return {
        "step": step,
        "problem": problem,
        "task_id": f"p/{problem}",
        "turn": turn,
        "prompts": [f"problem {problem}, turn {turn}\nagent {agent}" for agent in range(2)],
        "responses": [f"x = {step}\ny = {number}", f"z = {number}"],
        "reward": float(number),
        "parts": {"tests": float(number)} | ({} if number else {"bonus": 1.0}),
    } | changes


@pytest.fixture
def run(tmp_path) -> Path:
    """A run of three steps of two turns."""
    steps = [{"return": 0.1 * i, "kl/0": 0.1, "scheme/other": 1.0} for i in range(3)]
    run = write_run(tmp_path / "run", steps=steps, after={"return": 0.5, "greedy/return": 0.5})
    returns = {"return": [0.5, 0.5], "greedy/return": [0.5, 0.5]}
    example = {"before": sample(0, 0, 1), "after": sample(3, 0, 1, 1)}
    edit_json(run / "summary.json", returns={"before": returns, "after": returns}, example=example)
    problems = (1, 1, 2)  # of the steps
    write(run, [sample(i, problems[i], t, n) for i in range(3) for t in range(2) for n in range(2)])
    examples = [sample(i, p, 0) for i in range(4) for p in range(3)]
    write_lines(run / "examples.jsonl", examples)
    return run


@pytest.fixture
def bare(tmp_path) -> Path:
    """A run that has not come to its end, and wrote no samples."""
    return write_run(tmp_path / "bare", steps=[{"return": 0.1}])


def write(run: Path, samples: list[dict]):
    write_lines(run / "samples.jsonl", samples)


def page_of(*runs: Path) -> Path:
    run_eval("page", *runs)
    return runs[0].parent / "page.html"


def data_of(page: Path) -> list[dict]:
    """Return what the script holds of the runs."""
    [line] = re.findall(r"^ *const DATA = (.*);$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return json.loads(line)["runs"]


# --- the file -------------------------------------------------------------------------------------


def test_the_page_holds_the_runs_and_asks_no_network(run, bare, capsys):
    page = page_of(run, bare)
    assert capsys.readouterr().out == f"page: {page}\n"
    [first, second] = data_of(page)
    asked = [first["prompts"][record["prompts"]] for record in first["samples"]]
    assert asked[:3] == [sample(0, 1, turn)["prompts"] for turn in (0, 0, 1)]
    assert len(first["prompts"]) == 5  # samples and examples share their prompts
    assert first["summary"] == read_json(run / "summary.json")
    assert (second["samples"], second["summary"]) == ([], {})
    text = page.read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"(?:src|href)=|https?://(?!www\.w3\.org/2000/svg)", text)
    assert not re.search("innerHTML|outerHTML|insertAdjacent|document.write|eval\\(", text)


def test_a_page_is_watched_until_its_runs_are_finished(bare, monkeypatch):
    waits = []

    def finish(seconds):
        waits.append(seconds)
        assert f'"reload": {seconds}' in (bare.parent / "page.html").read_text()
        (bare / "summary.json").write_text('{"steps": 1}')

    monkeypatch.setattr("time.sleep", finish)
    run_eval("page --watch", bare)
    assert len(waits) == 1
    assert '"reload": null' in (bare.parent / "page.html").read_text()


def test_no_text_of_a_run_leaves_the_script(run):
    plain = page_of(run).read_text()
    write(run, [sample(0, 1, 0, responses=[EVIL, ""])])
    page = page_of(run)
    assert data_of(page)[0]["samples"][0]["responses"][0] == EVIL
    assert page.read_text().count("<") == plain.count("<")


def test_what_is_no_run_or_damaged_is_refused(run, capsys):
    page = run.parent / "page.html"
    page.write_text("<!doctype html> mine")
    assert "page.html is not a page of eval.py" in refused_by_eval(capsys, "page", run)
    assert page.read_text() == "<!doctype html> mine"
    (run / "samples.jsonl").write_text('{"step": 0}\n')
    assert "samples.jsonl is damaged" in refused_by_eval(capsys, "page", run)


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
def test_the_arrows_move_the_slider_and_changes_of_the_same_problem_are_marked(opened, run):
    tab = opened(run)
    assert tab.text_content("#step") == "step 0 of 3"
    tab.focus("#slider")  # which would move by itself, too
    for _ in range(4):  # the last stop is 3
        tab.keyboard.press("ArrowRight")
    assert "since step 2" in tab.text_content("#samples h3")  # it shows a held-out problem
    tab.locator("#view").select_option("first training problem of a step, sampled")
    assert "no change is marked" in tab.text_content("#samples h3")  # it has another problem
    assert tab.locator("#samples .added, #samples .past").count() == 0
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    assert tab.text_content("#step") == "step 1 of 3"
    assert tab.input_value("#slider") == "1"
    assert tab.locator("#samples .added").count() > 0
    tab.uncheck("#marked")
    assert tab.locator("#samples .added").count() == 0
    tab.click("text=turn 1")
    tab.click("text=rank 2")
    chosen = sample(1, 1, 1, 0)
    for kind in ("prompt", "response"):  # an element a line
        assert tab.text_content(f"#samples .{kind}") == chosen[f"{kind}s"][0].replace("\n", "")
    # The worse of two samples alone has the bonus, 1: the mean is .5 at both steps.
    row = tab.locator("#samples .panel tr", has_text="bonus")
    assert row.locator("td").all_text_contents()[-3:] == ["0.5", "0.5", "±0"]


@pytest.mark.browser
def test_runs_stand_beside_each_other_and_their_texts_stay_texts(opened, run, bare, tmp_path):
    other = shutil.copytree(run, tmp_path / "<b>other")
    write(other, [sample(0, 1, 0, responses=[EVIL, ""])])
    tab = opened(run, other, bare)
    tab.locator("#view").select_option("first training problem of a step, sampled")
    cards = tab.locator("#samples > .card")
    assert [cards.nth(i).locator(".response").count() for i in range(3)] == [2, 2, 0]
    assert cards.nth(1).locator(".response").first.text_content() == EVIL
    assert tab.locator("b b, .text b, .text script").count() == 0
    assert "no joint response" in cards.nth(2).text_content()
    assert "not finished" in tab.locator("#heldout > .card").nth(2).text_content()
    tab.locator("#charts select").first.select_option("kl/0")
    tab.click("#charts svg >> nth=0")
    assert tab.text_content("#step") == "step 1 of 3"
    tab.click("#more")
    assert tab.locator("#charts select").count() == 3
    tab.locator("#to").fill("2")
    assert tab.locator("#charts svg >> nth=0").text_content().count("step 0") == 1
