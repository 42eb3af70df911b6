"""eval.py page: python -m pytest tests/test_page.py

`python -m pytest -m browser tests/test_page.py` opens a page in headless Chromium. That takes
`pip install playwright` and a Chromium: one in the PATH, or `playwright install chromium`.
"""

import json
import re
import shutil

import pytest
from helpers import ROOT, edit_json, read_json, run_eval, write_lines, write_run

EVIL = "</script><script>document.title = 'it ran'</script><!--<script><b>&amp;\ud800"


def sample(step, problem, turn, number=0, responses=None):
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
def run(tmp_path):
    """A run of three steps of two turns. Steps 0 and 1 have the same problem."""
    steps = [{"return": 0.1, "kl/0": 0.1, "scheme/other": 1.0}] * 3
    run = write_run(tmp_path / "run", steps=steps, after={"return": 0.5})
    example = {"before": sample(0, 0, 1), "after": sample(3, 0, 1, 1)}
    edit_json(run / "summary.json", example=example)
    samples = [sample(i, i // 2, t, n) for i in range(3) for t in range(2) for n in range(2)]
    write_lines(run / "samples.jsonl", samples)
    return run


@pytest.fixture
def bare(tmp_path):
    """A run that has not come to its end, and wrote no samples."""
    return write_run(tmp_path / "bare", steps=[{"return": 0.1}])


def page_of(*runs):
    run_eval("page", *runs)
    return runs[0] / "page.html"


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
    assert first["samples"][0] == sample(0, 0, 0)
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
        assert f'"reload": {seconds}' in (bare / "page.html").read_text()
        (bare / "summary.json").write_text('{"steps": 1}')

    monkeypatch.setattr("time.sleep", finish)
    run_eval("page --watch", bare)
    assert len(waits) == 1
    assert '"reload": null' in (bare / "page.html").read_text()


# --- in a browser ---------------------------------------------------------------------------------

SCRIPT = """<pre id="failed"></pre><script>
  const failed = [];
  const check = (what, holds) => holds || failed.push(what);
  const card = (number) => document.querySelectorAll("#samples > .card")[number];
  const text = (place, selector) => place.querySelector(selector)?.textContent;
  const send = (place, event) => place.dispatchEvent(event);
  const press = (words) => [...document.querySelectorAll("button")]
    .find((button) => button.textContent.startsWith(words)).click();
  for (let time = 0; time < 4; time++) {  // the last stop is 3
    send(document.body, new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  }
  const head = text(card(0), "h3");
  check("a held-out problem is shown", head.includes("step 3, p/0. Changes since step 0"));
  byId("view").value = "first training problem of a step, sampled";
  send(byId("view"), new Event("change"));
  check("another problem marks no change", text(card(0), "h3").includes("no change is marked"));
  check("texts stay texts", text(card(1), ".response") == EVIL);
  check("no text is an element", !document.querySelector("b b, .text b, .text script"));
  check("the title is the runs'", document.title == RUNS.map((run) => run.name).join(" beside "));
  check("a run without samples", card(2).textContent.includes("no joint response"));
  check("a run that goes on", byId("heldout").children[2].textContent.includes("not finished"));
  const select = document.querySelector("#charts select");
  select.value = "kl/0";
  send(select, new Event("change"));
  const picture = document.querySelector("#charts svg");
  const { x, y, width } = picture.getBoundingClientRect();
  const place = { clientX: x + width / 2, clientY: y + 9, buttons: 1 };
  send(picture, new PointerEvent("pointerdown", place));
  check("a chart moves the slider", text(document, "#step") == "step 1 of 3");
  check("changes are marked", card(0).querySelector(".added"));
  byId("marked").click();
  check("changes are not marked", !document.querySelector("#samples .added"));
  press("turn 1");
  press("rank 2");
  for (const kind of ["prompts", "responses"]) {  // an element a line
    const asked = SAMPLE[kind][0].replace("\\n", "");
    check(kind, text(document, `#samples .${kind.slice(0, -1)}`) == asked);
  }
  // One of two samples has the bonus, not the first by its rank: the mean is .5 at both steps.
  const rows = [...card(0).querySelectorAll(".panel tr")];
  const row = rows.find((line) => line.textContent.includes("bonus"));
  const cells = [...row.querySelectorAll("td")].slice(-3).map((cell) => cell.textContent);
  check("means of a part", String(cells) == "0.5,0.5,±0");
  press("+ chart");
  check("another chart", document.querySelectorAll("#charts select").length == 3);
  byId("failed").textContent = JSON.stringify(failed);
</script>"""


@pytest.mark.browser
def test_runs_stand_beside_each_other_and_a_slider_moves_them_all(run, bare, tmp_path):
    other = shutil.copytree(run, tmp_path / "<b>other")
    write_lines(other / "samples.jsonl", [sample(0, 1, 0, responses=[EVIL, ""])])
    page = page_of(run, other, bare)
    data = {"EVIL": EVIL, "SAMPLE": sample(1, 0, 1)}
    script = SCRIPT
    for name, value in data.items():
        script = script.replace(name, json.dumps(value).replace("<", "\\u003c"))
    page.write_text(page.read_text() + script)
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright")
    with playwright.sync_playwright() as starter:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = starter.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto(page.as_uri())
        assert tab.text_content("#failed") == "[]"
