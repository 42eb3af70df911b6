"""eval.py page: python -m pytest tests/test_page.py

`python -m pytest -m browser tests/test_page.py` opens a page in headless Chromium.
"""

import json
import re
import shutil
import subprocess

import pytest
from helpers import ROOT, edit_json, read_json, run_eval, write_lines, write_run

EVIL = "</script><script>document.title = 'it ran'</script><!--<script><b>&amp;\ud800"


def sample(step, problem, turn, number=0, responses=None):
    """Return a line of samples.jsonl. Sample 0 has a bonus, 1 the reward. Agent 1 speaks once."""
    return {
        "step": step,
        "problem": problem,
        "task_id": f"p/{problem}",
        "turn": turn,
        "prompts": [f"problem {problem}, turn {turn}\nagent 0", ["agent 1", ""][turn]],
        "responses": responses or [f"x = {step}\ny = {number}", "z"],
        "reward": float(number),
        "parts": [{"bonus": 1.0}, {"tests": 1.0}][number],
    }


@pytest.fixture
def run(tmp_path):
    """A run of three steps of two turns. Steps 0 and 1 have the same problem."""
    steps = [{"return": 0.1, "kl/0": 0.1, "scheme/other": 1.0}] * 3
    before = {"return": 0.1, "return_se": 0.05, "greedy/return": 0.5, "reward/tests": 0.1}
    after = {"return": 0.5, "return_se": 0.05, "greedy/return": 0.52, "greedy/return_se": 0.05}
    after["reward/tests"] = 0.9
    run = write_run(tmp_path / "run", steps=steps, before=before, after=after)
    example = {}
    for number, when in enumerate(("before", "after")):
        example[when] = [sample(3 * number, 0, turn, number) for turn in range(2)]
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
    lines = dict(json.loads(line)["glossary"])
    assert lines["kl/[^/]+"].startswith("KL to the frozen base, nats per token (k3)")
    assert lines["unused"] == "does not call a helper, or drops the value"
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

SCRIPT = """<script>
  const failed = [];
  const check = (what, holds) => holds || failed.push(what);
  const box = (part, number) => byId(part).children[number];
  const text = (place, selector) => place.querySelector(selector)?.textContent;
  const count = (place, selector) => place.querySelectorAll(selector).length;
  const send = (place, event) => place.dispatchEvent(event);
  const press = (words) => [...document.querySelectorAll("button")]
    .find((button) => button.textContent.startsWith(words)).click();
  check("the head names what differs", text(box("runs", 1), "b") == "seed 1 · ");
  for (let time = 0; time < 4; time++) {  // the last stop is 3
    send(document.body, new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  }
  check("steps count from 1", text(document, "#step") == "step 3 of 3");
  check("texts stay texts", text(box("samples", 1), ".response") == EVIL);
  check("no text is an element", !document.querySelector("b b, .text b, .text script"));
  check("the title is the runs'", document.title == RUNS.map((run) => run.name).join(" beside "));
  check("a run without samples", box("samples", 2).textContent.includes("No joint response"));
  check("a run that goes on", box("heldout", 2).textContent.includes("not finished"));
  const select = document.querySelector("#charts select");
  select.value = "kl/0";
  send(select, new Event("change"));
  check("a metric is explained", select.title.startsWith("KL to the frozen base"));
  const picture = document.querySelector("#charts svg");
  const { x, y, width } = picture.getBoundingClientRect();
  const place = { clientX: x + width / 2, clientY: y + 9, buttons: 1 };
  send(picture, new PointerEvent("pointerdown", place));
  check("a chart moves the slider", text(document, "#step") == "step 1 of 3");
  check("a silent agent has no box", count(box("samples", 0), ".response") == 1);
  press("turn 0");
  press("rank 2");
  check("two agents", count(box("samples", 0), ".response") == 2);
  for (const kind of ["prompts", "responses"]) {
    check(kind, text(document, `#samples .${kind.slice(0, -1)}`) == SAMPLE[kind][0]);
  }
  check("a reward has its maximum", text(box("samples", 0), ".bar b") == "1 of 4");
  // One of two samples has the bonus, not the first by its rank: the mean is .5.
  const rows = [...box("samples", 0).querySelectorAll("tr")];
  const row = rows.find((line) => line.textContent.includes("bonus"));
  const cells = [...row.querySelectorAll("td")].slice(1).map((cell) => cell.textContent);
  check("parts", String(cells) == "1,0.5");
  const held = box("heldout", 0);
  check("every turn", count(held, "h4") == 4 + 6 && held.textContent.includes("p/0, turn 1"));
  check("changes are marked", text(held, "mark") == "3" && count(held, "mark") == 4);
  check("a change above its error", text(held, ".up") == "0.1 → 0.5 ± 0.050");
  check("no other has a color", count(held, ".up, .down") == 1);
  press("+ chart");
  check("another chart", count(document, "#charts select") == 3);
  document.body.textContent = `failed: ${JSON.stringify(failed)}`; // and no half a character
</script>"""


@pytest.mark.browser
def test_runs_stand_beside_each_other_and_a_slider_moves_them_all(run, bare, tmp_path):
    other = shutil.copytree(run, tmp_path / "<b>other")
    args = read_json(other / "args.json")["args"]
    edit_json(other / "args.json", args=args | {"seed": 1})
    write_lines(other / "samples.jsonl", [sample(0, 1, 0, responses=[EVIL, ""])])
    page = page_of(run, other, bare)
    data = {"EVIL": EVIL, "SAMPLE": sample(0, 0, 0)}
    script = SCRIPT
    for name, value in data.items():
        script = script.replace(name, json.dumps(value).replace("<", "\\u003c"))
    page.write_text(page.read_text() + script)
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if not program:
        pytest.skip("no Chromium")
    command = [
        program,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
    ]
    command += [f"--user-data-dir={tmp_path}/chromium", "--dump-dom", page.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    [failed] = re.findall("failed: (.*?)<", shown)
    assert failed == "[]"
