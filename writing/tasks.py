"""TLDR and arXiv: the paper's writing problems (arXiv 2508.04652).

Two agents write two texts from one source, a Reddit post or the abstract of a paper; one agent
alone writes both, with a line between them. The wording of the prompts is ours, what each role is
told is the paper's: in tldr neither agent knows of the other, in arxiv each knows what the other
one covers.
"""

from typing import ClassVar

from programs.rows import fifths, file_rows, hub_rows
from tasks import Task
from writing.rewards import ARXIV, TLDR, copied, ends, lengths
from writing.text import SEPARATOR, split, words


class Tldr(Task):
    """trl-lib/tldr: Reddit posts with SUBREDDIT, TITLE and POST, in the field "prompt". The paper
    trained on train and evaluated on test. Of a local file, the last fifth is test, the fifth
    before it dev, the rest train."""

    reward = name = "tldr"
    most_agents = 2
    bonuses: ClassVar = {"coherence": "consistency"}  # of tldr_paper and arxiv_paper
    hub, field, kind = "trl-lib/tldr", "prompt", TLDR
    ranges: ClassVar = {"train": "train[:1000]", "dev": "validation[:1000]", "test": "test[:1000]"}
    given = "A post from an online forum:"
    # per agent: what it is asked for, and how its text is introduced
    roles = (
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
        """{"task_id", and the source in `field`} of each row; ValueError names a bad one."""
        own = self.data and fifths(file_rows(self.data), split)
        rows = own or hub_rows(self.hub, None, self.ranges[split])
        for number, row in rows:
            text = row.get(self.field)
            if not isinstance(text, str) or not text.strip():
                message = f"task {self.name} needs a text in the field {self.field!r}"
                where = f"{self.data or self.hub}, row {number}"
                raise ValueError(f"{where}: {message}, not {text!r:.40}")
        ids = f"{self.name}/{split}"
        return [{"task_id": f"{ids}/{n}", self.field: row[self.field]} for n, row in rows]

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """The source and the agent's role, then its own responses with what it was told."""
        asked, cue = self.roles[agent]
        if self.num_agents == 1:
            asked, cue = f"{self.both}\n{SEPARATOR}", self.roles[0][1]
        source = item[self.field].strip().removesuffix("TL;DR:").strip()
        prompt = f"{self.given}\n\n{source}\n\n{asked}\n\n{cue}"
        for response, feedback in history:
            prompt += f" {response.strip()}\n\n{feedback} Write it again, and better.\n\n{cue}"
        return prompt

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        """For every agent the same, and nobody's words: what can be counted in both texts."""
        texts = split(responses)
        if texts is None:
            return [f"The line {SEPARATOR} has to stand between the two texts, once."]
        sizes = " and ".join(str(len(words(text))) for text in texts)
        cut = sum(not ends(text) for text in texts)
        feedback = (
            f"The two texts have {sizes} words, which is worth {lengths(self.kind, *texts):.2f} of "
            f"1.00; {copied(item[self.field], *texts):.0%} of them is copied; {cut} of them "
            "is cut off."
        )
        return [feedback] * len(responses)


class Arxiv(Tldr):
    """OpenMLRL/arXiv_abstract: abstracts of 100 to 300 words, in the field "abstract_text". The
    paper trained on train and evaluated on val."""

    reward = name = "arxiv"
    hub, field, kind = "OpenMLRL/arXiv_abstract", "abstract_text", ARXIV
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
