"""Say what each agent is asked, with `Task` and the tasks of the paper (arXiv 2508.04652).

--task takes a name of the table at the end, a dotted path or file.py:Class. A task has to write
`items` and `observe` only. A class that does not inherit from `Task` gets the other defaults, too.
Search this file for the words of a prompt to change it.

1. `Task`: what the core may ask of a task.
2. Workflows around any task: agents that answer in turn, or discuss.
3. Code tasks: helpers and one main function, written by different agents.
4. Writing tasks: two texts from one source.
5. The table of names.
"""

import functools
import pickle
import re
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, ClassVar

from policies import Mistake
from programs.extraction import closed, part_names
from programs.items import code_item, passable, read_items, signature
from programs.rows import fifths, file_rows, hub_rows
from programs.texts import (
    ARXIV_LENGTHS,
    SEPARATOR,
    TLDR_LENGTHS,
    copied_share,
    has_end,
    length_score,
    split,
    words,
)

History = list[tuple[str, str]]  # an agent's earlier responses with their feedback
Prompt = str | list[dict]  # a text, or the messages of a chat
REMEMBERED = 10_000  # answers that a task keeps of what is dear
LOCK = threading.Lock()  # lru_cache alone might give two threads two places for one answer

# --------------------------------------------------------------------------------------------------
# 1. Task
# --------------------------------------------------------------------------------------------------


class Task:
    """The base class of tasks, with a default for everything but `items` and `observe`.

    `play` and the reward run in threads: what their calls share needs a lock.
    """

    reward: str | None = None  # default reward; make_task replaces it with the run's
    model: Any = None  # default model, or a function of the number of agents that returns it
    field = "prompt"  # the field of an item that holds the problem's text
    # Texts that end a response, whose text then ends before them.
    stop: str | tuple[str, ...] = ""
    # Columns of eval.py's table: name -> part of the reward. "pass@k" is the expected best of k
    # joint responses. A name without @k is the fraction of joint responses whose part exceeds 0.
    measures: ClassVar[dict[str, str]] = {}
    # Names that `scheme` returns: each is written, as 0 where it did not occur. Others are from
    # the time that they are met.
    schemes: tuple[str, ...] = ()

    # Default of --turns, the largest number of times that an episode asks. Or a function of the
    # number of agents that returns it.
    turns: Any = 1
    per_episode = False  # whether an episode is paid once, and not at each of its scored turns
    maximum: float | None = None  # largest sum of the parts, where `play` pays by itself
    asks = 1  # times that `play` asks for one scored turn
    takes_data = False  # whether its problems may come from a file, --data
    most_agents: int | None = None  # number of roles

    def __init__(self, data: str | None = None, num_agents: int = 2):
        """Take --data and --num-agents.

        A task that is told more takes feedback, the name in --feedback, or any --task-arg by its
        name. `data` and `feedback` are given only where the flags are.
        """
        name = type(self).__name__
        if self.most_agents and num_agents > self.most_agents:
            raise Mistake(f"task {name} is for {self.most_agents} agents, not {num_agents}")
        self.data = data
        self.num_agents = num_agents

    def items(self, split: str) -> list[dict]:
        """Return the problems of "train", "dev" or "test", as plain dicts."""
        raise Mistake(f"{type(self).__name__} has no items(split)")

    def play(self, item: dict) -> Generator:
        """Play an episode. Yield prompts, receive answers, and yield a joint response to score.

        After a dict from agents to prompts these agents answer, each from its own prompt alone. A
        list comes back, with a text per agent, "" for one that was not asked. A list with a text
        per agent is the joint response that the reward scores at this turn. `(item, list)` is
        scored with this item. A dict of named parts is what the joint response earns, if there is
        no reward.

        The value that an episode returns is scored, too. A turn after which it asks again is not
        scored.

        It is replayed from its answers, so it is pure: no clock, no random numbers, no change of
        the item or of anything shared. `once` remembers what is dear.

        This default is the paper's. An agent's prompt is made of the item, of its own responses and
        of the feedback. It never holds a partner's text, unless the feedback does.
        """
        histories: list[History] = [[]] * self.num_agents
        while True:
            texts = yield observations(self, item, histories)
            yield texts
            feedback = self.once(self.feedback, item, texts)
            histories = longer(histories, texts, feedback)

    def scored(self, turns: int) -> int:
        """Return the largest number of scored turns in an episode that asks so many times."""
        return 1 if self.per_episode else max(turns // self.asks, 1)

    def once(self, function: Callable, *arguments):
        """Return function(*arguments), called once for equal arguments, in all threads.

        The latest REMEMBERED answers are kept. Nobody may change them. A function that is made
        anew each time, such as a lambda in `play`, is called each time.
        """
        values = hash(pickle.dumps(arguments))
        with LOCK:
            memory = vars(self).setdefault("_memory", functools.lru_cache(REMEMBERED)(place))
            lock, answers = memory(function, values)
        with lock:  # another thread may be at work on it
            if not answers:
                answers.append(function(*arguments))
        return answers[0]

    def observe(self, agent: int, item: dict, history: History) -> Prompt:
        """Return one agent's prompt.

        It is a text, or the messages of a chat, `[{"role": ..., "content": ...}, ...]`. The model's
        chat template renders these. It may not change the item or the history.
        """
        raise Mistake(f"{type(self).__name__} has no observe(agent, item, history)")

    def begin(self, agent: int, item: dict) -> str:
        """Return the beginning of an agent's answer, such as an open code fence.

        It belongs to the prompt, so it is not trained on. The response's text begins with it.
        """
        return ""

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        """Return the text that each agent reads after a turn."""
        return [""] * len(responses)

    def scheme(self, item: dict, responses: list[str]) -> str | None:
        """Return a name for how the work was divided. Training and eval.py count these names."""
        return None

    def check(self, item: dict) -> None:
        """Raise ValueError for an item of eval.py ask that this task cannot use.

        It has the field of the problem, or all fields if the task's own items do not have that.
        """
        own = next(iter(self.items("test")))
        for name in [self.field] if self.field in own else own:
            if type(item.get(name)) is not type(own[name]):
                raise Mistake(f"ask: the item needs {name!r}, such as {own[name]!r:.60}")

    def ask(self, text: str) -> dict:
        """Return the item of a problem in a user's words, for eval.py ask."""
        item = next(iter(self.items("test")))
        if self.field not in item:
            raise Mistake(f"ask of this task takes an item as JSON, with {', '.join(item)}")
        name = item.get("task_id", "the first of test")
        print(f"the problem has your {self.field}, and is otherwise {name}", file=sys.stderr)
        return item | {self.field: text}


def place(function: Callable, arguments: int) -> tuple[threading.Lock, list]:
    """Return where `Task.once` keeps an answer, with the lock of those who ask for it."""
    return threading.Lock(), []


def observations(task: Task, item: dict, histories: list[History]) -> dict[int, Prompt]:
    """Return the prompt of every agent, from the item and its own history."""
    return {agent: task.observe(agent, item, own) for agent, own in enumerate(histories)}


def longer(histories: list[History], texts: list[str], feedback: list[str]) -> list[History]:
    """Return the agents' histories with one more turn, whose feedback is a text for each agent."""
    if not isinstance(feedback, list | tuple) or len(feedback) != len(texts):
        raise Mistake(f"feedback has to return {len(texts)} texts, not {feedback!r:.60}")
    turns = zip(histories, texts, feedback, strict=True)
    return [[*history, (text, read)] for history, text, read in turns]


def of_agents(value, agents: int):
    """Return a default of a task: a value, or what a function of the number of agents returns."""
    return value(agents) if callable(value) else value


# --------------------------------------------------------------------------------------------------
# 2. Workflows around any task
#
# class Mine(InTurn, CoopHumanEval) is such a task. eval.py's baselines are made the same way.
# --------------------------------------------------------------------------------------------------


class InTurn:
    """Agents that are asked together answer one after the other. Each reads those before it.

    Their texts stand above its own prompt.
    """

    turns = staticmethod(lambda agents: agents)

    @property
    def asks(self):
        return self.num_agents * super().asks

    def play(self, item):
        return relay(self, super(), item, self.one_by_one)

    def one_by_one(self, prompts):
        texts = [""] * self.num_agents
        authors = []
        for agent in sorted(prompts):
            answers = yield {agent: below(quoted(texts, authors), prompts[agent])}
            texts[agent] = answers[agent]
            authors.append(agent)
        return texts


class Discussion:
    """Each agent answers, reads the others' answers as feedback, and answers again, which counts.

    If the task has a `play` of its own, its prompts come again, below all answers.
    """

    turns = 2

    @property
    def asks(self):
        return 2 * super().asks

    def play(self, item):
        if super().play.__func__ is Task.play:
            return self.discuss(item)
        return relay(self, super(), item, self.twice)

    def discuss(self, item):
        agents = range(self.num_agents)
        histories = [[]] * self.num_agents
        while True:
            texts = yield observations(self, item, histories)
            others = [quoted(texts, set(agents) - {agent}) for agent in agents]
            histories = longer(histories, texts, others)
            texts = yield observations(self, item, histories)
            yield texts
            feedback = self.once(self.feedback, item, texts)
            histories = longer(histories, texts, feedback)

    def twice(self, prompts):
        texts = yield prompts
        answers = quoted(texts, prompts)
        texts = yield {agent: below(answers, prompt) for agent, prompt in prompts.items()}
        return texts


def relay(task, inner, item, ask):
    """Play an episode of `inner`, the task without a workflow.

    `ask` puts its prompts. It is a generator that returns the answers. The episode may ask as often
    as it might without.
    """
    episode = inner.play(item)
    left = of_agents(task.turns, task.num_agents) * inner.asks // task.asks
    answers = None
    while True:
        try:
            event = episode.send(answers)
        except StopIteration as end:
            return end.value
        if not asks_agents(event):
            answers = yield event
            continue
        if not left:
            return
        left -= 1
        answers = yield from ask(event)


def asks_agents(event) -> bool:
    """Return whether an episode's event is a dict of prompts, and not of named parts."""
    return isinstance(event, dict) and not all(isinstance(name, str) for name in event)


def quoted(texts: list[str], authors: Iterable[int]) -> str:
    """Return what these agents wrote, for an agent to read."""
    quotes = [f"Agent {author} wrote:\n{closed(texts[author])}" for author in sorted(authors)]
    return "\n\n".join(quotes)


def below(text: str, prompt: Prompt) -> Prompt:
    """Return a prompt with a text, if any, above it or above the last message of a chat."""
    if not text:
        return prompt
    if isinstance(prompt, str):
        return f"{text}\n\n{prompt}"
    *before, last = prompt
    above = f"{text}\n\n"
    content = last["content"]
    if isinstance(content, list):  # parts
        return [*before, last | {"content": [{"type": "text", "text": above}, *content]}]
    return [*before, last | {"content": above + content}]


# --------------------------------------------------------------------------------------------------
# 3. Code tasks
# --------------------------------------------------------------------------------------------------


class CodeTask(Task):
    """A task whose responses are Python functions that unit tests call.

    Agents 0 to n-2 write the helpers (aux, aux2, ...), the last agent writes the entry point, main.
    A single agent writes both.
    """

    reward = "code"
    default_mode: str | None = None  # of programs/feedback.py, without --feedback
    measures: ClassVar = {
        "pass@k": "metric/pass",
        "coop_rate": "cooperation",  # the paper's: how often the bonus is earned at all
        "metric/coop": "metric/coop",
        "accuracy@k": "metric/tests",
    }
    schemes = (
        *("unused", "wrapper", "decorator", "coordinator", "strategy filter", "fallback"),
        "other",
    )

    def __init__(
        self,
        data: str | None = None,
        num_agents: int = 2,
        feedback: str | None = None,
        feedback_tests: int = 1,
    ):
        """Set the feedback. `feedback_tests` is how many tests it may show (0 for all)."""
        from programs.feedback import configured

        super().__init__(data, num_agents)
        self.tell = configured(feedback or self.default_mode, feedback_tests)

    def scheme(self, item: dict, responses: list[str]) -> str:
        from programs.schemes import classify

        return classify(responses, item)

    def check(self, item: dict) -> None:
        for name, kind in (("prompt", str), ("entry_point", str), ("tests", list)):
            if not isinstance(item.get(name), kind):
                raise Mistake(f"ask: the item needs {name!r}, a {kind.__name__}")

    def ask(self, text: str) -> dict:
        """Return an item without tests, of a question, or of a signature with its docstring."""
        names = re.findall(r"(?m)^\s*(?:async\s+)?def\s+(\w+)", text)
        if not names:
            text = f'def solve(xs):\n    """{text}"""\n'
            names = ["solve"]
        return {"prompt": text, "entry_point": names[-1], "setup": "", "tests": []}


class Coop(CodeTask):
    """The embedded team's task: short Python problems that helpers and one main function solve.

    A problem is about a list of integers or words. It selects elements by a predicate (the even
    numbers), applies a transform (the squares of ...) and then a reducer (the sum of ...). No
    prompt says which of these parts a helper does, so the agents have to find an agreement. With
    three agents, every problem has all three parts. With four or more, it has a second predicate.

    The compositions of "dev" and "test" occur nowhere in "train", while each of their parts does,
    except "starting with" for four agents. Two parts may mean the same, as "multiples of 2" and
    "even numbers". So 7, 8 and 31 of the 100 problems of "test", for two, three and four agents,
    are in "train" in other words. Nothing depends on a seed: a split is always the same problems in
    the same order. The problems are in tiny/, where examples/warm_start/problems.py puts them.
    """

    @staticmethod
    def model(agents: int) -> str | None:
        """Return the model for three and more agents, trained on their problems."""
        return "tiny/many" if agents > 2 else None

    def items(self, split: str) -> list[dict]:
        problems = Path(__file__).parent / f"tiny/coop-{min(max(self.num_agents, 2), 4)}.jsonl.gz"
        rows = file_rows(str(problems))
        return [row for _, row in rows if row["task_id"].startswith(f"coop/{split}/")]

    def observe(self, agent: int, item: dict, history: History) -> str:
        """Return the problem, the agent's own responses with their feedback, and its role."""
        *helpers, _ = part_names(item, self.num_agents)
        if self.num_agents == 1:
            role = "# write the helper aux, then solve\n"
        elif agent < self.num_agents - 1:
            role = f"# write the helper {helpers[agent]}\n"
        else:
            role = f"# write solve, you can call {' and '.join(helpers)}\n"
        prompt = item["prompt"]
        for response, feedback in history:
            prompt += f"{role}{response.rstrip()}\n{feedback}\n"
        return prompt + role

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        """Return how many tests passed, and the first exception.

        With --feedback, return the text of that mode as comments.
        """
        if self.tell:
            messages = self.tell(item, responses)
            return ["\n".join(f"# {line}" for line in text.splitlines()) for text in messages]
        from programs.teams import run, team_parts

        result = run(item, team_parts(item, responses))
        names = [error.partition(":")[0] for error in result.errors if error]
        raised = next((name for name in names if name != "AssertionError"), None)
        return [passed_line(sum(result.passed), len(result.passed), raised)] * len(responses)


def passed_line(passed: int, total: int, error: str | None) -> str:
    """Return the feedback of task coop, a comment."""
    return f"# passed {passed} of {total}" + (f", {error}" if error else "")


# Real models are asked in a chat, or continue the text. `begin` opens their answer.
_TEAM = "Several programmers write this program together. None of them sees the others' code."
_HELPER = (
    "You write the helper function `{name}`. It returns data that is useful for the solution, and "
    "the programmer of `{entry}` calls it."
)
_MAIN = "You write `{entry}`. You can call {calls}, which your {partners}."
_SINGLE = "Complete this Python function. You can write a helper function `aux` for it."
ANSWER = "Answer with {names} in one Python code block, without explanations or examples."
_AGAIN = "\n\nYour earlier answer:\n\n{response}\n```\n\n{feedback}Answer again, and better."


class HumanEval(CodeTask):
    """openai/openai_humaneval: 164 problems, with reference solutions.

    A row has three fields. `prompt` is a signature with its docstring. `entry_point` is the name of
    that function. `test` defines check(candidate), a function with assertions.

    `ranges` has the rows of each split. The paper trained on train, evaluated on dev during
    training, and reported results on test. A local file with another number of rows is divided in
    its own order. Its last fifth is test, and the fifth before it is dev.
    """

    default_mode = "tests"
    takes_data = True
    stop = "\n```"  # the fence that ends an answer; one in a docstring is indented
    rows = 164
    hub: ClassVar[tuple] = ("openai/openai_humaneval", None, "test")  # name, configuration, split
    ranges: ClassVar = {"train": (33, 133), "dev": (0, 32), "test": (133, 164)}

    @functools.cached_property
    def problems(self) -> list[dict]:
        """Return all items in the order of their source. ValueError names a bad row."""
        return read_items(self.data, self.hub, code_item)

    def items(self, split: str) -> list[dict]:
        if len(self.problems) != self.rows:
            return passable(fifths(self.problems, split), split)
        first, end = self.ranges[split]
        return passable(self.problems[first:end], split)

    def observe(self, agent: int, item: dict, history: History) -> str:
        """Return the problem and the agent's role, then its own responses with their feedback."""
        text = self.question(agent, item)
        for response, feedback in history:
            feedback = f"{feedback}\n\n" if feedback else ""
            text += _AGAIN.format(response=response.strip("\n"), feedback=feedback)
        return text

    def question(self, agent: int, item: dict) -> str:
        """Return the problem and the agent's role. The roles are the paper's, in other words."""
        *helpers, entry = part_names(item, self.num_agents)
        problem = item["prompt"].strip("\n")
        if self.num_agents == 1:
            answer = ANSWER.format(names="the whole program")
            return f"{_SINGLE}\n\n{problem}\n\n{answer}"
        if agent < len(helpers):
            name = helpers[agent]
            role = _HELPER.format(name=name, entry=entry)
        else:
            name = entry
            calls = " and ".join(f"`{helper}`" for helper in helpers)
            partners = "partner writes" if len(helpers) == 1 else "partners write"
            role = _MAIN.format(entry=entry, calls=calls, partners=partners)
        answer = ANSWER.format(names=f"the complete function `{name}`")
        return f"{problem}\n\n{_TEAM} {role} {answer}"

    def begin(self, agent: int, item: dict) -> str:
        """Return an open fence, main's import of its partners' functions, and the `def` line.

        A single agent gets the fence alone where the problem does not name its helper. Forced to
        begin with a helper, Qwen2.5-Coder-0.5B solved less (7 of 16 problems, and 9 without).
        """
        names = part_names(item, self.num_agents)
        imports = ""
        if agent == self.num_agents - 1 > 0:
            imports = f"from partner import {', '.join(names[:-1])}\n\n\n"
        try:
            first_line = signature(item["prompt"], names[agent]) + "\n"
        except ValueError:  # the problem does not say what the helper takes
            first_line = f"def {names[agent]}(" if self.num_agents > 1 else ""
        return f"```python\n{imports}{first_line}"

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        return self.tell(item, responses)


class CoopHumanEval(HumanEval):
    """OpenMLRL/CoopHumanEval: 82 problems that leave something to divide, without solutions."""

    rows = 82
    hub = ("OpenMLRL/CoopHumanEval", None, "test")
    ranges: ClassVar = {"train": (0, 50), "dev": (50, 66), "test": (66, 82)}


# --------------------------------------------------------------------------------------------------
# 4. Writing tasks
# --------------------------------------------------------------------------------------------------


class Tldr(Task):
    """trl-lib/tldr: Reddit posts with SUBREDDIT, TITLE and POST, in the field "prompt".

    One agent writes a concise summary, the other a detailed one. Neither knows of the other. A
    single agent writes both, with a line between them. The roles follow the paper, in other words.
    The paper trained on train and evaluated on test. A local file is divided in its own order: the
    last fifth is test, the fifth before it is dev, and the rest is train.
    """

    reward = name = "tldr"
    most_agents = 2
    takes_data = True
    hub = "trl-lib/tldr"
    field = "prompt"
    lengths = TLDR_LENGTHS
    ranges: ClassVar = {"train": "train[:1000]", "dev": "validation[:1000]", "test": "test[:1000]"}
    given = "A post from an online forum:"
    roles = (  # per agent: the request, and the words that introduce its text
        (
            "Write a concise summary of this post, in one sentence or a few. Keep to the facts "
            "that the post gives.",
            "Concise summary:",
        ),
        (
            "Write a detailed summary of this post, in one paragraph and in your own words. Use a "
            "varied vocabulary, and some transition words so that the sentences flow.",
            "Detailed summary:",
        ),
    )
    both = (
        "Write two summaries of this post. The first is concise: one sentence or a few. The second "
        "is detailed: one paragraph in your own words, two or three times as long, with a varied "
        "vocabulary and some transition words. Between them write this line, exactly:"
    )

    def items(self, split: str) -> list[dict]:
        """Return each row's task_id and source (in `field`). ValueError names a bad row."""
        if self.data:
            rows = fifths(file_rows(self.data), split)
        else:
            rows = hub_rows(self.hub, None, self.ranges[split])
        items = []
        for number, row in rows:
            text = row.get(self.field)
            if not isinstance(text, str) or not text.strip():
                raise Mistake(
                    f"{self.data or self.hub}, row {number}: task {self.name} needs a text in the "
                    f"field {self.field!r}, not {text!r:.40}"
                )
            items.append({"task_id": f"{self.name}/{split}/{number}", self.field: text})
        return items

    def observe(self, agent: int, item: dict, history: History) -> str:
        """Return the source and the agent's role, then its own responses with their feedback."""
        asked, cue = self.roles[agent]
        if self.num_agents == 1:
            asked = f"{self.both}\n{SEPARATOR}"
        source = item[self.field].strip().removesuffix("TL;DR:").strip()
        prompt = f"{self.given}\n\n{source}\n\n{asked}\n\n{cue}"
        for response, feedback in history:
            prompt += f" {response.strip()}\n\n{feedback} Write it again, and better.\n\n{cue}"
        return prompt

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        """Return one text for all agents, with the counts of both texts and without their words."""
        texts = split(responses)
        if texts is None:
            return [f"The line {SEPARATOR} has to stand between the two texts, once."]
        sizes = " and ".join(str(len(words(text))) for text in texts)
        lengths = length_score(self.lengths, *texts)
        copied = copied_share(item[self.field], *texts)
        cut_off = sum(not has_end(text) for text in texts)
        feedback = (
            f"The two texts have {sizes} words, which is worth {lengths:.2f} of "
            f"1.00; {copied:.0%} of them is copied; {cut_off} of them is cut off."
        )
        return [feedback] * len(responses)


class Arxiv(Tldr):
    """OpenMLRL/arXiv_abstract: abstracts of 100 to 300 words, in the field "abstract_text".

    Each agent writes one paragraph of an introduction, and knows which topics the other paragraph
    has. The paper trained on train and evaluated on val.
    """

    reward = name = "arxiv"
    hub = "OpenMLRL/arXiv_abstract"
    field = "abstract_text"
    lengths = ARXIV_LENGTHS
    ranges: ClassVar = {"train": "train[:1000]", "dev": "val[:1000]", "test": "test[:1000]"}
    given = "The abstract of a scientific paper:"
    roles = (
        (
            "Expand it into the first paragraph of an introduction, about 150 words: the "
            "background and the motivation of this work. Another writer adds the methods and the "
            "implications, so leave those out.",
            "Background and motivation:",
        ),
        (
            "Expand it into the second paragraph of an introduction, about 150 words: the methods "
            "of this work and their implications. Another writer adds the background and the "
            "motivation, so leave those out.",
            "Methods and implications:",
        ),
    )
    both = (
        "Expand it into an introduction of two paragraphs, about 150 words each. The first gives "
        "the background and the motivation of this work, the second its methods and implications. "
        "Between them write this line, exactly:"
    )


# --------------------------------------------------------------------------------------------------
# 5. The table of names: --task
# --------------------------------------------------------------------------------------------------

TASKS = {
    "coop": "tasks.Coop",
    "humaneval": "tasks.HumanEval",
    "coophumaneval": "tasks.CoopHumanEval",
    "tldr": "tasks.Tldr",
    "arxiv": "tasks.Arxiv",
}
DEFAULT = "coop"  # --task where none is given
