"""eval.py page: python -m pytest tests/test_page.py

`python -m pytest -m browser tests/test_page.py` opens pages in headless Chromium. That takes
`pip install playwright` and a Chromium: one in the PATH, or `playwright install chromium`.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
from helpers import ROOT, edit_json, read_json, refused_by_eval, run_eval, write_lines, write_run

EVIL = "</script><script>document.title = 'it ran'</script><!--<script><b>&amp;\ud800"


def sample(step: int, problem: int, turn: int, number: int = 0, responses=None) -> dict:
    """Return a line of samples.jsonl. Sample 0 has a bonus, 1 has the reward."""
    return {
        "step": step,
        "problem": problem,
        "task_id": f"p/{problem}",
        "turn": turn,
        "prompts": [f"problem {problem}, turn {turn}\nagent 0", "agent 1"],
        "responses": responses or [f"x = {step}\ny = {number}", "z"],
        "reward": float(number),
        "parts": [{"bonus": 1.0}, {"tests": 1.0}][number],
    }


@pytest.fixture
def run(tmp_path) -> Path:
    """A run of three steps of two turns. Steps 0 and 1 have the same problem."""
    steps = [{"return": 0.1, "kl/0": 0.1, "scheme/other": 1.0}] * 3
    run = write_run(tmp_path / "run", steps=steps, after={"return": 0.5})
    example = {"before": sample(0, 0, 1), "after": sample(3, 0, 1, 1)}
    edit_json(run / "summary.json", example=example)
    samples = [sample(i, i // 2, t, n) for i in range(3) for t in range(2) for n in range(2)]
    write_lines(run / "samples.jsonl", samples)
    return run


@pytest.fixture
def bare(tmp_path) -> Path:
    """A run that has not come to its end, and wrote no samples."""
    return write_run(tmp_path / "bare", steps=[{"return": 0.1}])


def page_of(*runs: Path) -> Path:
    run_eval("page", *runs)
    return runs[0].parent / "page.html"


# --- the file -------------------------------------------------------------------------------------


def test_the_page_holds_the_runs_and_asks_no_network(run, bare, capsys):
    """No text of a run leaves the script."""
    with (run / "samples.jsonl").open("a") as file:
        file.write(json.dumps(sample(2, 1, 1, responses=[EVIL, ""])) + "\n")
    page = page_of(run, bare)
    assert capsys.readouterr().out == f"page: {page}\n"
    text = page.read_text()
    [line] = re.findall(r"^ *const DATA = (.*);$", text, re.MULTILINE)
    [first, second] = json.loads(line)["runs"]
    asked = [first["prompts"][record["prompts"]] for record in first["samples"]]
    assert asked[:3] == [sample(0, 0, turn)["prompts"] for turn in (0, 0, 1)]
    assert len(first["prompts"]) == 4  # samples and examples share their prompts
    assert first["samples"][-1]["responses"] == [EVIL, ""]
    assert first["summary"] == read_json(run / "summary.json")
    assert (second["samples"], second["summary"]) == ([], {})
    assert text.count("<") == (ROOT / "evaluation/page.html").read_text().count("<")
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


def test_what_is_not_such_a_page_is_kept(run, capsys):
    page = run.parent / "page.html"
    page.write_text("<!doctype html> mine")
    assert "page.html is not a page of eval.py" in refused_by_eval(capsys, "page", run)
    assert page.read_text() == "<!doctype html> mine"


# --- in a browser ---------------------------------------------------------------------------------


@pytest.fixture
def tab():
    """A browser's tab. It may have no error, and ask for no file but its page."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright")
    with playwright.sync_playwright() as starter:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        try:
            browser = starter.chromium.launch(executable_path=program, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no Chromium: {error}")
        tab = browser.new_page(viewport={"width": 1366, "height": 768})
        seen = []
        tab.on("pageerror", lambda error: seen.append(str(error)))
        tab.on("console", lambda message: seen.append(message.text))
        tab.on("request", lambda request: seen.append(request.url))
        yield tab
        assert seen == [tab.url]
        browser.close()


@pytest.mark.browser
def test_runs_stand_beside_each_other_and_a_slider_moves_them_all(tab, run, bare, tmp_path):
    other = shutil.copytree(run, tmp_path / "<b>other")
    write_lines(other / "samples.jsonl", [sample(0, 1, 0, responses=[EVIL, ""])])
    tab.goto(page_of(run, other, bare).as_uri())
    cards = tab.locator("#samples > .card")
    head = cards.first.locator("h3")
    tab.focus("#slider")  # which would move by itself, too
    for _ in range(4):  # the last stop is 3
        tab.keyboard.press("ArrowRight")
    assert "since step 2" in head.text_content()  # it shows a held-out problem
    tab.locator("#view").select_option("first training problem of a step, sampled")
    assert "no change is marked" in head.text_content()  # it has another problem
    assert cards.nth(1).locator(".response").first.text_content() == EVIL
    assert tab.locator("b b, .text b, .text script").count() == 0
    assert "no joint response" in cards.nth(2).text_content()
    assert "not finished" in tab.locator("#heldout > .card").nth(2).text_content()
    tab.locator("#charts select").first.select_option("kl/0")
    tab.click("#charts svg >> nth=0")
    assert tab.text_content("#step") == "step 1 of 3"
    assert cards.first.locator(".added").count() > 0
    tab.uncheck("#marked")
    assert tab.locator("#samples .added").count() == 0
    tab.click("text=turn 1")
    tab.click("text=rank 2")
    for kind in ("prompts", "responses"):  # an element a line
        text = sample(1, 0, 1)[kind][0].replace("\n", "")
        assert tab.text_content(f"#samples .{kind[:-1]}") == text
    # One of two samples has the bonus, and not the first by its rank: the mean is .5 at both steps.
    row = cards.first.locator(".panel tr", has_text="bonus")
    assert row.locator("td").all_text_contents()[-3:] == ["0.5", "0.5", "±0"]
    tab.click("#more")
    assert tab.locator("#charts select").count() == 3
