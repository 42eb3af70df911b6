"""Data sets of reasoning-gym, whose verifier is the reward: pip install reasoning-gym==0.1.25

    python train.py --task examples/gym.py:Gym --num-agents 1 --model MODEL --chat-template
    python train.py --task examples/gym.py:Gym --branching chain --model MODEL \\
        --chat-template --task-arg dataset=basic_arithmetic size=1000 'config={"max_terms": 3}'

One agent answers the question, which is GRPO. Two are a planner, who sees the question and writes a
hint, and a solver, who sees both and answers at the second turn. Each split has a seed of its own,
and dev and test leave out what is in train. `config` is the data set's own.

The answer stands between <answer> and </answer>. Without these tags it is the whole response. Only
data sets whose answers are compared as texts are taken (33 of 106). Other verifiers evaluate what a
model wrote, in the trainer. Do not take list_functions, isomorphic_strings or ransom_note. They are
other problems in each process, so no run of theirs goes on. An answer that contains the right one
earns a part of 1.
"""

import functools
import json

# Problem i of a data set has the seed of the data set plus i.
SEEDS = {"train": 0, "dev": 10_000_000, "test": 20_000_000}
HELD_OUT = 5  # dev and test have a fifth of the problems of train
FORM = "\n\nWrite your final answer between <answer> and </answer>.\n"
PLAN = "\n\nDo not answer. Write a short hint for a partner, who will answer.\n"
HINT = "\n\nA hint from your partner: {}"


class Gym:
    reward = f"{__file__}:verified"
    per_episode = True

    def __init__(self, num_agents=2, dataset="basic_arithmetic", size=500, config=None):
        if num_agents > 2:
            raise ValueError(f"a planner and a solver are two agents, not {num_agents}")
        self.num_agents = num_agents
        self.source = (dataset, json.dumps(config or {}))
        self.size = size
        make(*self.source, 1, 0)  # a mistake ends here

    def items(self, split):
        name, config = self.source
        seen = set()
        size = self.size
        if split != "train":
            seen = {entry["question"] for entry in make(name, config, size, SEEDS["train"])}
            size //= HELD_OUT
        items = []
        for number, entry in enumerate(make(name, config, size, SEEDS[split])):
            if entry["question"] not in seen:
                item = {"task_id": f"{name}/{split}/{number}", "prompt": entry["question"]}
                items.append(item | {"entry": entry, "source": self.source})
        return items

    @staticmethod
    def turns(agents):
        return agents

    def play(self, item):
        if self.num_agents == 1:
            answer = yield {0: item["prompt"] + FORM}
            return answer
        hint, _ = yield {0: item["prompt"] + PLAN}
        _, answer = yield {1: item["prompt"] + HINT.format(hint) + FORM}
        return [hint, answer]


@functools.cache
def make(name, config, size, seed):
    """Return a data set. ValueError: it is unknown, refuses its configuration, or is not safe."""
    try:
        import reasoning_gym
        from reasoning_gym.dataset import ProceduralDataset
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{error}: examples/gym.py needs pip install reasoning-gym==0.1.25"
        ) from error
    try:
        options = json.loads(config)
        dataset = reasoning_gym.create_dataset(name, size=size, seed=seed, **options)
    except Exception as error:  # each data set checks its own configuration, mostly by assert
        raise ValueError(f"reasoning-gym refuses {name} with {config}: {error}") from error
    if type(dataset).score_answer is not ProceduralDataset.score_answer:
        raise ValueError(
            f"{name} does not compare answers as texts, and its verifier may evaluate them: choose "
            "another data set, such as basic_arithmetic"
        )
    return dataset


def verified(item, responses):
    """Return the verifier's score of the last response."""
    from reasoning_gym.utils import extract_answer

    text = responses[-1]
    answer = extract_answer(text)
    if answer is None:
        answer = text.strip()
    score = float(make(*item["source"], 1, 0).score_answer(answer, item["entry"]))
    return {"score": score, "metric/pass": float(score >= 1)}


verified.maximum = 1.0
