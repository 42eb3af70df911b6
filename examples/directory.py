"""Two assistants and a private list. One knows where things are, the other wants to know.

    python train.py @recipes/directory.args
    python train.py @recipes/directory.args --task examples/directory.py:Half
    python train.py @recipes/directory.args --task examples/directory.py:Told \
        --num-agents 1 --turns 1 --num-generations 24

Agent 0 has a list of facts, "The map of Jo is in the attic." Agent 1 has a question, "Where is the
map of Jo?". Neither sees the other's file. Agent 1 asks, agent 0 replies, and agent 1 answers. A
right answer earns 1, less COST for each character of all texts. The people, the things and the
places of dev and test occur nowhere in train.

`Directory` is as above. With --task-arg wording=other the facts are in other words. In `Deaf` no
reply arrives, which is the lower bound. In `Told` one agent sees the list and the question, which
is the upper bound. In `Half` only both lists together answer. Agent 1 knows that the map of Jo is
in the red box, and agent 0 that the red box is in the attic.
"""

import random
import re
from typing import ClassVar

from tasks import Task

COST = 0.002  # of each character, for the team, at most MOST in all
MOST = 0.3
COUNTS = {"train": 2000, "dev": 60, "test": 60}  # problems
LONGEST = 11  # facts of a list: dev has no more places


def words(text):
    return text.split()


PEOPLE = words("""
    Adam Alice Ana Bella Ben Bob Carl Cathy Clara Daniel David Dora Emma Erik Eva Finn Fiona Frank
    Georg Gina Greta Helen Henry Hugo Igor Iris Ivan Jack Jane Julia Karl Kate Kevin Laura Lena Leo
    Maria Mark Max Nina Noah Nora Olaf Oscar Paul Peter Rita Rosa Sam Simon Theo Tina Ursula Uwe
    Vera Victor Walt Wanda Yara Zoe
""")
THINGS = words("""
    ball basket bell belt blanket book bottle broom brush bucket camera candle clock coat comb
    compass cup doll drum flute glove guitar hammer hat jar kettle key kite knife ladder lamp letter
    magnet map medal mirror nail pan pencil phone pillow plate purse puzzle radio ring robot rope
    saw scarf shoe spoon stamp ticket towel trumpet umbrella violin wallet watch whistle
""")
PLACES = words("""
    airport attic bakery balcony bank barn bridge cabin castle cave cellar chapel cinema closet
    desert embassy factory forest fountain garage garden greenhouse gym hallway hospital hotel
    island kitchen library lighthouse lobby market meadow mill museum office orchard palace pantry
    park pharmacy porch prison school shed stable stadium station studio temple tent theater tower
    tunnel valley vineyard warehouse zoo
""")
COLOURS = words("""
    black blue brown cyan green indigo ivory orange pink purple red silver violet white yellow
""")
BOXES = [f"{colour} {box}" for colour in COLOURS for box in ("bag", "box", "case", "chest")]
FACTS = {  # what is where: a thing, a person, a place
    "same": ("The {} of {} is in the {}.",),
    "other": (
        "You will find the {} of {} in the {}.",
        "The {} that belongs to {} lies in the {}.",
        "Look for the {} of {} in the {}.",
    ),
}
PUT = "The {} is in the {}."  # a box and a place
QUESTION = "Where is the {} of {}?"
ASK = "Write a short request to your partner, who has the list."
REPLY = "Reply to your partner in a short sentence. This is your list."
ANSWER = "Answer the question with one word."
# The list of the worked examples: a thing, a person, a box, a place
KNOWN = (("pipe", "Tom", "gold box", "church"), ("coin", "Sue", "grey box", "harbor"))


def part(kind, split):
    """Return the words of one split: .6 of them are of train, .2 of dev, .2 of test."""
    kind = random.Random(0).sample(kind, len(kind))
    first = round(0.6 * len(kind))
    second = round(0.8 * len(kind))
    return {"train": kind[:first], "dev": kind[first:second], "test": kind[second:]}[split]


def lines(*texts):
    return "\n".join(texts)


def paid(item, texts, answer):
    """Return what an episode earns: 1 for the right place, less what its texts cost.

    A wrong answer costs nothing: where none of a group is right, a cost would teach short texts.
    """
    named = set(re.findall("[a-z]+", answer.lower())) & set(PLACES)
    right = float(named == {item["place"]})
    characters = sum(map(len, texts))
    return {
        "right": right,
        "length": -right * min(COST * characters, MOST),
        "metric/right": right,
        "metric/characters": characters,
    }


class Directory(Task):
    field = "question"
    turns = 3
    team = 2
    per_episode = True
    maximum = 1.0
    measures: ClassVar = {"right": "metric/right"}  # a column of eval.py

    def __init__(self, num_agents: int = 2, facts: int = 4, wording: str = "same"):
        """Set how many facts a list has, and their wording: "same" as the example's, or "other"."""
        if num_agents != self.team:
            raise ValueError(f"{type(self).__name__} is for {self.team} agents, not {num_agents}")
        if wording not in FACTS:
            raise ValueError(f"wording is {' or '.join(FACTS)}, not {wording}")
        if not 1 <= facts <= LONGEST:
            raise ValueError(f"a list has 1 to {LONGEST} facts, not {facts}")
        self.facts = facts
        self.wording = FACTS[wording]
        example = random.Random(0)
        self.examples = [self.item(example, KNOWN, asked, FACTS["same"]) for asked in (0, 1)]

    def items(self, split):
        draw = random.Random(split)
        kinds = [part(kind, split) for kind in (THINGS, PEOPLE, BOXES, PLACES)]
        items = []
        for number in range(COUNTS[split]):
            rows = list(zip(*(draw.sample(kind, self.facts) for kind in kinds), strict=True))
            item = self.item(draw, rows, draw.randrange(self.facts), self.wording)
            items.append({"task_id": f"directory/{split}/{number}", **item})
        return items

    def item(self, draw, rows, asked, wording):
        """Return a problem, with the request and the reply that would solve it."""
        thing, person, _, place = rows[asked]
        facts = [draw.choice(wording).format(*row[:2], row[3]) for row in rows]
        return {
            "question": QUESTION.format(thing, person),
            "facts": facts,
            "request": f"Please tell me where the {thing} of {person} is.",
            "reply": f"The {thing} of {person} is in the {place}.",
            "place": place,
        }

    def play(self, item):
        _, request = yield {1: self.chat(ASK, item, self.question, "request", examples=2)}
        reply, _ = yield {0: self.chat(REPLY, item | {"request": request}, self.requested, "reply")}
        heard = item | {"reply": self.heard(reply)}
        _, answer = yield {1: self.chat(ANSWER, heard, self.replied, "place")}
        return paid(item, [request, reply, answer], answer)

    def chat(self, instruction, item, shown, wanted, examples=1):
        """Return the messages of a chat: what to do, worked examples, and the item.

        shown(item) is what is asked, and item[wanted] is the example's answer. The first prompt is
        the same for a whole group, so its second example is nearly free.
        """
        messages = [{"role": "system", "content": instruction}]
        for example in self.examples[-examples:]:
            messages.append({"role": "user", "content": shown(example)})
            messages.append({"role": "assistant", "content": example[wanted]})
        return [*messages, {"role": "user", "content": shown(item)}]

    def question(self, item):
        return item["question"]

    def requested(self, item):
        return lines(*item["facts"], item["request"])

    def replied(self, item):
        return lines(item["reply"], item["question"])

    def heard(self, reply):
        """Return what agent 1 reads of a reply."""
        return reply


class Deaf(Directory):
    def heard(self, reply):
        return "..."


class Told(Directory):
    turns = 1
    team = 1

    def play(self, item):
        (answer,) = yield {0: self.chat(ANSWER, item, self.all, "place")}
        return paid(item, [answer], answer)

    def all(self, item):
        return lines(*item["facts"], item["question"])


class Half(Directory):
    def item(self, draw, rows, asked, wording):
        thing, person, box, place = rows[asked]
        own = [draw.choice(wording).format(*row[:3]) for row in rows]
        facts = [PUT.format(*row[2:]) for row in rows]
        draw.shuffle(facts)
        return {
            "question": lines(*own, QUESTION.format(thing, person)),
            "facts": facts,
            "request": f"Please tell me where the {box} is.",
            "reply": PUT.format(box, place),
            "place": place,
        }

    def replied(self, item):
        return lines(item["reply"], item["question"].splitlines()[-1])
