"""MAGRPO: Multi-Agent Group Relative Policy Optimization (arXiv 2508.04652), the whole algorithm.

The team is a Dec-POMDP whose state is the item. At turn t agent i sees its own history h_i: its
prompts, its responses and the feedback, never a partner's text. It answers with one whole response
a_i ~ pi_i(. | h_i). The joint response earns one shared reward r. These are the steps:

    1. Each agent samples G responses to its own prompt, without seeing its partners.
    2. Joint response g is (a_1^g, ..., a_n^g).
    3. r^g = reward(item, joint response g). It is one number for the whole team.
    4. R_i^g = r^g + gamma * mean R_i of the next turn, which joint response g opened.
    5. A_i^g = R_i^g - mean_g' R_i^g'.                                               (Eq. 1)
    6. L_i = -(1/G) sum_g A_i^g sum_k log pi_i(a_i,k^g | h_i, a_i,<k^g), by token k. (Eq. 2)
    7. Every agent takes one step on its own L_i, its gradient clipped on its own.

The paper writes Eq. 2 as the gradient of -L_i. This is --joint aligned, the paper's, in which all
agents have the same R and A. The default for two agents is --joint cross, which scores every
combination of the agents' responses. --joint K scores K combinations for each response. Then r_i^g
is the mean over the combinations that contain a_i^g, and each agent has its own R and A. The
authors' library adds their rewards up, so its gradient grows with G. In the first half of the
steps --optimism moves r_i^g from that mean towards the maximum. Then nobody unlearns a response
that only needs a better partner. --optimism 0 keeps the mean. An agent also has its own R
and A where a reward pays single agents. Temperature, top-k and top-p are part of pi_i.

One optimizer step learns from all turns of all problems of a batch. So in the code the factor 1/G
of L_i is 1 / (problems x the agent's responses to a problem at that turn), see `rows`.

The algorithm leaves out:

- a critic
- the division by the group's standard deviation, which biases the gradient (--advantage std)
- an entropy bonus
- a KL term, unless --kl-coef asks for one
- an importance ratio and its clipping, unless another program has sampled (--engine)

Read it in this order: the equations (pure functions), the rollout (steps 1 to 4), the
LightningModule (steps 5 to 7). The team is in policies/. policies/fast/ gives the same results in
less time.
"""

import contextlib
import functools
import itertools
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from policies import Mistake, processes
from policies.codec import Prompt, TooLong
from policies.decoding import SILENCE, Response
from policies.logprobs import Row, importance, padded
from policies.memory import halving
from policies.sampling import Sampling
from policies.team import Team

TRAIN, EVAL, ORDER = 0, 1, 2  # streams of random numbers that never meet


# --------------------------------------------------------------------------------------------------
# 1. The equations: pure functions of tensors.
#    Change this for an ablation: another advantage, another loss, another way to spread a reward.
#    The logged `return` is Node.value: only agent_rewards and team_mean affect it.
# --------------------------------------------------------------------------------------------------


def agent_rewards(parts: dict[str, float], agents: int) -> list[float]:
    """Return what a joint response pays each agent: the sum of the parts and its own agent/<i>.

    Parts that are named metric/... pay nobody.
    """
    shared = 0.0
    for name, value in parts.items():
        if not name.startswith(("metric/", "agent/")):
            shared += value
    return [shared + parts.get(f"agent/{agent}", 0.0) for agent in range(agents)]


def team_mean(values: Tensor) -> Tensor:
    """Return the mean over the agents, (n, ...) -> (...), exactly where all have the same value."""
    return values[0] + (values - values[0]).mean(0)


@functools.lru_cache
def arrangement(agents: int, samples: int, count: float) -> Tensor:
    """Return the joint responses to score, as sample numbers: (J, n), each sample in `count`.

    They come in `count` rounds of G. Round k shifts agent i's samples by i k, so that they meet
    other partners than in the rounds before. With three agents, G 3 and count 2 these are

        round 0, shifts 0 0 0   000 111 222  (aligned)
        round 1, shifts 0 1 2   012 120 201.

    With G 8 no two samples of three agents meet twice in 4 rounds. In 4 rounds of random order, one
    meeting in six is a repetition. The largest count, G^(n-1), is cross.
    """
    joints = []
    for number in range(min(count, samples ** (agents - 1))):
        cycle, k = divmod(number, samples)
        shifts = [agent * k for agent in range(agents)]
        # From round G on, a digit of `cycle` makes a round unlike all before.
        for agent in range(2, agents):
            shifts[agent] += cycle // samples ** (agent - 2)
        for sample in range(samples):
            joints.append([(sample + shift) % samples for shift in shifts])
    return torch.tensor(sorted(joints))


def sample_returns(
    rewards: Tensor, joints: Tensor, future: Tensor, optimism: float = 0.0
) -> Tensor:
    """Return R of every sample of every agent at one node (step 4): (n, G).

    `rewards` (n, J) has each agent's reward for each joint response of `joints` (J, n), 0 for one
    that is not scored. `future` (n, G) is gamma times the mean return of the node that joint
    response g opened, 0 for one that ended the episode.

    A sample's reward is the *mean* over its joint responses, so that the gradient's scale does not
    depend on G. Its future is that of its aligned joint response, because only this one is played
    on. The partners' samples are independent, so both are unbiased, and so is their sum, even if
    some joint responses end the episode and others do not.

    `optimism` moves the reward from the mean (0) to the maximum (1): what the sample earns if the
    partners learn to fit it. The maximum over their samples is biased upwards. It is of rewards
    alone, so it is a return only on the last turn, where no future follows (`back_up`).
    """
    assert rewards.shape == joints.T.shape
    returns = future.clone()
    for agent, own_rewards in enumerate(rewards):
        for sample in range(future.shape[1]):
            earned = own_rewards[joints[:, agent] == sample]  # in its joint responses
            mean = earned.mean()
            returns[agent, sample] += mean + optimism * (earned.max() - mean)
    return returns


def advantages(returns: Tensor, mode: str) -> Tensor:
    """Return the advantage of every sample over the last axis, the group: (..., G) -> (..., G).

    Equal returns (to rounding) give exactly 0, except with none. By enumeration
    (tests/test_equations.py), the expected gradient over the true gradient is:

        mean       (G-1)/G
        rloo, none 1
        std        not a constant
        max        not a constant. It follows E[R] - E[best of G] / G, a bias against the best.

    ValueError: another mode, which would train as one of these without a word.
    """
    if mode == "none":
        return returns
    group = returns.shape[-1]
    best = returns.amax(-1, keepdim=True)
    baseline = best if mode == "max" else returns.mean(-1, keepdim=True)  # Eq. 1
    equal = best - returns.amin(-1, keepdim=True) < 1e-9
    centred = (returns - baseline).masked_fill(equal, 0.0)
    if mode == "rloo":  # the baseline is the mean of the other G - 1 returns
        return centred * (group / max(group - 1, 1))
    if mode == "std":  # GRPO's division, by the population deviation
        return centred / (returns.std(-1, keepdim=True, correction=0) + 1e-4)
    if mode not in ("mean", "max"):
        raise ValueError(f"advantages() has no branch for {mode!r}")
    return centred


def policy_loss(logps: Tensor, mask: Tensor, coef: Tensor) -> Tensor:
    """Return Eq. 2 over rows of responses: -sum_rows coef sum_tokens log pi.

    logps and mask are (R, T). coef (R,) is the advantage times the row's share of the batch. The
    losses of micro-batches add up.
    """
    assert logps.shape == mask.shape
    assert coef.shape == logps.shape[:1]
    return -(coef * (logps * mask).sum(-1)).sum()


def kl_loss(logps: Tensor, reference: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    """Return KL(pi || reference) over rows, the sum of 1/2 (log pi - log ref)^2 over tokens.

    Shapes are those of policy_loss. The expected gradient, over tokens that pi sampled, is the
    exact gradient of KL(pi || ref) token by token, given the tokens before it. It leaves out the
    effect of an early token on the KL of later ones. The usual loss, k3, has the gradient of
    KL(ref || pi), which is another objective. k3 is logged.
    """
    per_token = 0.5 * (logps - reference).square()
    return (weight * (per_token * mask).sum(-1)).sum()


def learning_rate_factor(step: int, schedule: str, warmup: int, total: int) -> float:
    """Return the factor on --lr at a step: warm-up, then constant, linear or cosine to a tenth."""
    if step < warmup:
        return (step + 1) / warmup
    done = min((step - warmup) / max(total - warmup, 1), 1.0)
    if schedule == "linear":
        return 1.0 - 0.9 * done
    if schedule == "cosine":
        return 0.1 + 0.45 * (1.0 + math.cos(math.pi * done))
    return 1.0


def optimism_weight(step: int, start: float, total: int) -> float:
    """Return the weight of optimism at a step: it falls linearly to 0 in half of the steps."""
    return start * max(1.0 - step / (0.5 * total), 0.0)


# --------------------------------------------------------------------------------------------------
# 2. The rollout (steps 1 to 4).
#    An episode is the task's generator `play`. A node is a place where it asks agents.
#    Keep one thing in an ablation: every random number is a function of a node's key. This makes
#    resuming exact.
#    Change this for an ablation: which joint responses are scored (score_joints) and played on
#    (next_turn). The held-out evaluation uses the same scores, so shape rewards in set_advantages.
# --------------------------------------------------------------------------------------------------


@dataclass
class Node:
    """One point of the tree: the agents' observations, their samples and the returns of these.

    There are n agents, S samples (G, or 1 on a chain after the first turn) and J joint responses
    that are scored. Aligned joint response g has sample g of every agent. Only these S are played
    on. h_i of the paper is prompts[i], which the task's `play` makes.
    """

    problem: int  # number of the item in the batch
    item: dict
    key: tuple[int, ...]  # seeds the node's random numbers: (seed, stream, step, problem, path)
    history: list[tuple[dict, list[str]]]  # earlier turns: who was asked what, and the answers
    asked: dict[int, Prompt]  # the agents who answer, with their prompts
    prompts: list[tuple[int, ...]]  # per agent: its prompt's token ids, () if it is not asked
    samples: int  # S
    discounted: bool = False  # whether gamma counts its values: the turn before it was scored
    # steps 1 and 2
    responses: list[list[Response]] = field(default_factory=list)  # [agent][sample]
    # step 3 and the next turn
    steps: dict = field(default_factory=dict)  # by the texts of a joint response: episodes.Step
    joints: Tensor | None = None  # (J, n): the joint responses that are scored, as sample numbers
    parts: list[dict[str, float]] = field(default_factory=list)  # per joint response
    rewards: Tensor | None = None  # (n, J): what each agent earns for each joint response
    # per aligned joint response, None: its episode is over. [] on the last turn
    children: list["Node | None"] = field(default_factory=list)
    # steps 4 and 5
    values: Tensor | None = None  # (n,): mean reward + mean of the children's discounted values
    returns: Tensor | None = None  # (n, S): R of every sample (sample_returns)
    advantages: Tensor | None = None  # (n, S)

    @property
    def value(self) -> float:
        """The mean value over the agents, which is logged as `return`."""
        return float(team_mean(self.values))

    @property
    def team_rewards(self) -> Tensor:
        """The mean reward over the agents, (J,)."""
        return team_mean(self.rewards)

    def texts(self, joint: Sequence[int]) -> tuple[str, ...]:
        """Return the agents' texts in a joint response, which is given as sample numbers."""
        return tuple(self.responses[agent][sample].text for agent, sample in enumerate(joint))

    def aligned(self, sample: int) -> tuple[str, ...]:
        """Return the agents' texts in an aligned joint response."""
        return self.texts([sample] * len(self.responses))


@dataclass(frozen=True)
class Episode:
    """How a problem is played: train.py's flags of the same names."""

    turns: int
    gamma: float
    chat_template: bool
    max_prompt_tokens: int
    max_new_tokens: int


@dataclass(frozen=True)
class Play:
    """How many responses a rollout samples, scores together and plays on."""

    samples: int  # G: an agent's responses to a prompt
    joints: float  # joint responses that score each response. math.inf: all there are
    chain: bool = False  # one sample continues a joint response, in place of G
    optimism: float = 0.0  # weight of a response's best joint response (sample_returns)


class Rollout:
    """Plays a batch of problems.

    `task` is the user's (tasks.py). `reward` lets its episodes go on and scores many joint
    responses (training/reward_runner.py).
    """

    def __init__(self, team: Team, task, reward: Callable, episode: Episode):
        self.team = team
        self.task = task
        self.reward = reward
        self.episode = episode
        self.warned = False  # that a prompt of a later turn did not fit
        self.seconds: dict[str, float] = defaultdict(float)
        self.interruptible = contextlib.nullcontext  # where a signal may end a run, in a rollout
        if task.num_agents != team.size:
            raise Mistake(f"the task is for {task.num_agents} agents, the team has {team.size}")
        for base in team.bases:
            base.codec.end_at(task.stop)

    def __call__(self, items: list, key: tuple, sampling: Sampling, play: Play) -> list[list[Node]]:
        """Return the nodes of each turn: one per item at turn 0, then one per joint response.

        An episode ends after --turns, or earlier where the task's `play` asks nobody or the next
        turn's prompts do not fit.

        The key (seed, stream, step, number of the first item) decides every random number.
        """
        turns = []
        samples = 1 if play.chain else play.samples  # of later turns
        with self.interruptible():
            nodes = []
            starts = self.reward.starts(self.task, items)
            for number, start in enumerate(starts):
                node_key = (*key[:3], key[3] + number)
                nodes.append(self.open(number, items[number], node_key, start, play.samples))
            while nodes:
                turns.append(nodes)
                goes_on = len(turns) < self.episode.turns
                with self.timed("rollout"):
                    self.act(nodes, sampling)  # steps 1 and 2
                with self.timed("reward"):
                    self.score_joints(nodes, play.joints, goes_on)  # step 3
                opened = []
                if goes_on:
                    with self.timed("rollout"):
                        for node in nodes:
                            opened += self.next_turn(node, samples)
                nodes = opened
            back_up(turns, self.episode.gamma, play.optimism)  # step 4
        return turns

    def open(self, problem: int, item: dict, key: tuple, step, samples: int) -> Node:
        """Return the node where a step asks agents. TooLong: a prompt does not fit."""
        prompts: list[tuple[int, ...]] = [()] * self.team.size
        for agent, prompt in step.asked.items():
            prompts[agent] = self.encode(agent, item, prompt)
        discounted = bool(step.parts)
        return Node(problem, item, key, step.history, step.asked, prompts, samples, discounted)

    def encode(self, agent: int, item: dict, prompt: Prompt) -> tuple[int, ...]:
        """Return a prompt's token ids, those of the answer's beginning included.

        TooLong: the prompt does not fit.
        """
        episode = self.episode
        return self.team.base_of[agent].codec.encode(
            prompt,
            episode.chat_template,
            episode.max_prompt_tokens,
            episode.max_new_tokens,
            self.task.begin(agent, item),
        )

    def act(self, nodes: list[Node], sampling: Sampling) -> None:
        """Let the agents who speak answer their own prompts, decoded together over all nodes."""
        asks = []  # (agent, token ids of its prompt, the given beginning of its answer)
        uniforms = []
        for node in nodes:
            speakers = [agent for agent, prompt in enumerate(node.prompts) if prompt]
            for agent in speakers:
                asks.append((agent, node.prompts[agent], self.task.begin(agent, node.item)))
            shape = (self.team.size, node.samples, sampling.max_new_tokens)
            uniforms.append(generator(*node.key).random(shape)[speakers])  # they decide the tokens
        uniforms = torch.from_numpy(np.concatenate(uniforms))
        answers = iter(self.team.sample(asks, uniforms, sampling))
        for node in nodes:
            silence = [SILENCE] * node.samples
            node.responses = [next(answers) if prompt else silence for prompt in node.prompts]

    def score_joints(self, nodes: list[Node], joints: float, goes_on: bool) -> None:
        """Score joint responses of every node, so that each response is in as many of them.

        The aligned ones are played on to the next turn if the episode `goes_on`. What the task's
        `play` does not score earns 0.
        """
        for node in nodes:
            node.steps = dict.fromkeys(map(node.aligned, range(node.samples)))
        self.reward.play_on(self.task, nodes, goes_on)
        for node in nodes:
            speakers = sorted(node.asked)
            # A silent agent's responses are equal, so any column of the arrangement will do.
            columns = [speakers.index(i) if i in speakers else 0 for i in range(self.team.size)]
            node.joints = arrangement(len(speakers), node.samples, joints)[:, columns]
            for joint in node.joints.tolist():
                node.steps.setdefault(node.texts(joint))
        self.reward.play_on(self.task, nodes, goes_on=False)
        self.reward.pay(nodes)
        for node in nodes:
            node.parts = [node.steps[node.texts(joint)].parts for joint in node.joints.tolist()]
            rewards = [agent_rewards(parts, self.team.size) for parts in node.parts]  # (J, n)
            node.rewards = torch.tensor(rewards, dtype=torch.float64).T.contiguous()

    def next_turn(self, node: Node, samples: int) -> list[Node]:
        """Open and return a node for each aligned joint response whose episode goes on.

        An episode whose prompts no longer fit is over.
        """
        for sample in range(node.samples):
            step = node.steps[node.aligned(sample)]
            child = None
            if step.asked:
                key = (*node.key, sample)
                try:
                    child = self.open(node.problem, node.item, key, step, samples)
                except TooLong as error:
                    if not self.warned:
                        self.warned = True
                        print(
                            f"warning: an episode ends after turn {len(node.history)}: {error}. "
                            "The metric too_long counts such episodes",
                            file=sys.stderr,
                        )
            node.children.append(child)
        return list(filter(None, node.children))

    @contextlib.contextmanager
    def timed(self, name: str):
        """Add the seconds of a block to `self.seconds`."""
        start = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - start


def back_up(turns: list[list[Node]], gamma: float, optimism: float) -> None:
    """Compute values and returns from the last turn to the first (step 4).

    What follows a turn that is not scored is not discounted. Only the samples' returns on the last
    turn are optimistic. The values are means, so the logged `return` is, too.
    """
    for nodes in reversed(turns):
        for node in nodes:
            agents = len(node.rewards)
            # It stays 0 after the last turn of an episode.
            future = torch.zeros(agents, node.samples, dtype=torch.float64)
            for sample, child in enumerate(node.children):
                if child:
                    future[:, sample] = child.values * (gamma if child.discounted else 1.0)
            node.values = node.rewards.mean(1) + future.mean(1)  # (n,)
            # Before the last turn only the aligned joint responses are played on. The maximum over
            # the others would count what a response earns now, and not what it leaves for later.
            # Episodes that are over are no exception: the draw decides which are, so it would bias.
            weight = 0.0 if node.children else optimism
            node.returns = sample_returns(node.rewards, node.joints, future, weight)


def generator(*key: int) -> np.random.Generator:
    """Return the random numbers of a key, the same on every machine."""
    return np.random.default_rng(key)


@functools.lru_cache(maxsize=4)
def epoch_order(seed: int, epoch: int, size: int) -> np.ndarray:
    """Return the order of the problems in an epoch, from a stream of random numbers of its own."""
    return generator(seed, ORDER, epoch).permutation(size)


def step_problems(step: int, count: int, size: int, seed: int) -> list[int]:
    """Return the numbers of a step's `count` problems. Every epoch has a new order."""
    numbers = []
    for position in range(step * count, (step + 1) * count):
        epoch, place = divmod(position, size)
        numbers.append(int(epoch_order(seed, epoch, size)[place]))
    return numbers


# --------------------------------------------------------------------------------------------------
# 3. The LightningModule (steps 5 to 7).
#    Change this for an ablation: an agent's rewards (set_advantages), a response's weight (rows),
#    which responses are run again (compute_gradients), the loss (add_gradients), the step (update).
#    A loss of your own that needs responses without advantage, as a KL term does, changes both.
#    Keep three things, whose faults are silent. Every agent's rows reach only its own parameters.
#    Each agent is clipped on its own. A group is centred before it is split.
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Algorithm:
    """The options of the algorithm: train.py's flags of the same names say what each means."""

    num_generations: int
    batch_size: int
    joint: int | str
    branching: str
    advantage: str
    optimism: float
    normalize: str
    kl_coef: float
    lr: Sequence[float]  # of each agent
    grad_clip: float  # largest gradient norm of one agent (0 for any)
    lr_schedule: str
    warmup_steps: int
    max_steps: int
    freeze: Sequence[int]
    seed: int

    @property
    def joints(self) -> float:
        """The number of joint responses that score each response, as the words of --joint say."""
        words: dict = {"aligned": 1, "cross": math.inf}
        return words.get(self.joint, self.joint)


class MAGRPO(L.LightningModule):
    """Trains a team on `problems`.

    training/recorder.py writes the run and ends it. training/metrics.py computes what is logged.
    """

    def __init__(
        self,
        team: Team,
        task,
        reward: Callable,
        problems: list[dict],
        algorithm: Algorithm,
        episode: Episode,
        sampling: Sampling,
    ):
        super().__init__()
        self.automatic_optimization = False  # one optimizer, n losses, clipped one by one
        self.strict_loading = False  # a checkpoint holds what is trained, not the frozen bases
        self.team = team
        self.problems = problems
        self.algorithm = algorithm
        self.sampling = sampling
        self.rollout = Rollout(team, task, reward, episode)
        self.turns: list[list[Node]] = []  # the latest rollout
        self.learned: list[Row] = []  # what the latest step learned from
        # Of the latest step, by agent and by the name of what else trains: gradient norms, rates.
        self.norms: dict[int | str, float] = {}
        self.rates: dict[int | str, float] = {}
        self.scalars: dict[str, float] = {}  # what else a step logs, by its name in metrics.jsonl
        self.skipped = 0  # latest steps in a row whose gradients were not finite

    def training_step(self, batch, batch_idx):
        self.rollout.seconds.clear()
        self.scalars.clear()  # each step logs its own, so that a resumed run logs the same
        self.optimizers().zero_grad()  # the rollout may need the memory
        count = self.algorithm.batch_size * processes.place()[1]
        self.turns = self.play(count)  # steps 1 to 4
        self.set_advantages()  # step 5
        with self.rollout.timed("update"):
            self.compute_gradients(self.rows())  # step 6
            self.team.compare(self.learned)
            self.update()  # step 7

    def play(self, count: int) -> list[list[Node]]:
        """Return the rollout of the next `count` problems, a function of the seed and the step."""
        options = self.algorithm
        step = self.global_step
        numbers = step_problems(step, count, len(self.problems), options.seed)
        items = [self.problems[number] for number in numbers]
        play = Play(
            samples=options.num_generations,
            joints=options.joints,
            chain=options.branching == "chain",
            optimism=optimism_weight(step, options.optimism, options.max_steps),
        )
        key = (options.seed, TRAIN, step, 0)
        return processes.play(self.rollout, items, key, self.sampling, play)

    def groups(self) -> list[list[Node]]:
        """Return the groups over which advantages are centred, as lists of nodes.

        A group of a tree is the G samples of a node, each of which opens a node of its own. A group
        of a chain is the G lines of a problem, each continued by one sample a turn. Later turns
        have the lines that go on.
        """
        groups = []
        for nodes in self.turns:
            if self.algorithm.branching == "tree":
                groups += [[node] for node in nodes]
            else:
                lines = itertools.groupby(nodes, lambda node: node.problem)
                groups += [list(line) for _, line in lines]
        return groups

    def set_advantages(self) -> None:
        """Set the advantages of every node (step 5).

        Lines of a chain that are over count as a return of 0. With the mean of those that are left
        the gradient of later turns would be too short (examples/credit/exact.py).
        """
        for group in self.groups():
            returns = torch.cat([node.returns for node in group], 1)  # (n, S)
            over = max(self.algorithm.num_generations - returns.shape[1], 0)
            returns = F.pad(returns, (0, over))  # (n, G)
            values = advantages(returns, self.algorithm.advantage)
            sizes = [node.samples for node in group]
            for node, part in zip(group, values.split([*sizes, over], 1), strict=False):
                node.advantages = part

    def rows(self) -> list[Row]:
        """Return every response of those who learn, with its advantage and its weight in the loss.

        A frozen agent has no row, and so no backward pass, no gradient and no optimizer state.

        The weight is 1 / (problems x the agent's responses to a problem at that turn). The divisor
        also counts the responses that were not made because episodes had ended. So the loss
        estimates a mean over all episodes.

        With --normalize sum (the paper's) this is the weight. With sequence it is divided by the
        row's own length, and with token by the mean length of all the agent's rows. It does not
        depend on micro-batches.
        """
        options = self.algorithm
        rows = []
        lengths = defaultdict(list)  # by agent
        for turn, nodes in enumerate(self.turns):
            responses = options.num_generations  # of an agent to a problem at this turn
            if options.branching == "tree":  # each of them opens the next turn's G
                responses **= turn + 1
            share = 1.0 / (len(self.turns[0]) * responses)
            for node, agent in itertools.product(nodes, range(self.team.size)):
                prompt = node.prompts[agent]
                if agent in options.freeze or not prompt:
                    continue  # it is frozen, or did not speak
                values = node.advantages[agent].tolist()
                for response, value in zip(node.responses[agent], values, strict=True):
                    tokens = response.tokens
                    rows.append(
                        Row(agent, prompt, tokens, value, share, node.problem, response.logps)
                    )
                    lengths[agent].append(len(tokens))
        for row in rows:
            if options.normalize == "sequence":
                row.weight /= len(row.tokens)
            if options.normalize == "token":
                row.weight /= float(np.mean(lengths[row.agent]))
        return rows

    def compute_gradients(self, rows: list[Row]) -> None:
        """Set the gradients of every policy's own loss, the sum over its agents."""
        own = processes.own_problems(len(self.turns[0]))
        rows = [row for row in rows if row.problem in own]
        # A response without advantage has no gradient. Unless there is a KL term, it is not run.
        self.learned = [row for row in rows if row.coef != 0.0 or self.algorithm.kl_coef]
        halving(self.team.bases, lambda: self.set_gradients(self.learned))

    def update(self) -> None:
        """Take one step of all that trains. Every optimizer group has its own norm, clip and rate.

        A step whose norms are not finite would ruin every weight. It is skipped for all groups.
        Mistake: three in a row were.
        """
        options = self.algorithm
        optimizer = self.optimizers()
        factor = learning_rate_factor(
            self.global_step, options.lr_schedule, options.warmup_steps, options.max_steps
        )
        limit = options.grad_clip or math.inf
        groups = optimizer.param_groups
        processes.sum_gradients([p for group in groups for p in group["params"]])
        for group in groups:
            name = group.get("agent", group.get("name"))
            group["lr"] = group["rate"] * factor
            self.rates[name] = group["lr"]
            self.norms[name] = float(nn.utils.clip_grad_norm_(group["params"], limit))
        for agent in range(self.team.size):
            policy = self.team.policy_of(agent)
            self.rates[agent] = self.rates[policy]
            self.norms[agent] = self.norms[policy]
        if all(map(math.isfinite, self.norms.values())):
            self.skipped = 0
        else:
            self.skip()
        optimizer.step()

    def skip(self) -> None:
        """Drop the gradients, so that the step counts and changes nothing."""
        self.skipped += 1
        if self.skipped == 3:
            raise Mistake(f"gradient norms {self.norms}: the third step in a row")
        print(f"warning: gradient norms {self.norms}: the step is skipped", file=sys.stderr)
        self.optimizers().zero_grad()

    def set_gradients(self, rows: list[Row]) -> None:
        """Set the gradients of the policies' losses, in micro-batches that add up.

        If memory runs out it is called again with smaller ones (`halving`). So whatever else is
        fitted gets its gradient here, and takes its step in `update`.
        """
        self.optimizers().zero_grad()
        if self.algorithm.kl_coef:
            self.team.score(rows, self.sampling, frozen=True)
            for row in rows:
                row.reference = row.scored
        self.team.score(rows, self.sampling, self.add_gradients)

    def add_gradients(self, rows: list[Row], logps: Tensor, mask: Tensor) -> None:
        """Add the gradients of a micro-batch's loss (step 6). logps and mask (R, T)."""
        coef = torch.tensor([row.coef for row in rows], device=logps.device)
        if self.team.engine:  # another program drew the tokens
            mask = mask * importance(logps, rows)
        # The policy that sampled is the one that learns: there is no ratio, and nothing to clip.
        loss = policy_loss(logps, mask, coef)
        if self.algorithm.kl_coef:
            weight = torch.tensor([row.weight for row in rows], device=logps.device)
            reference = padded([row.reference for row in rows])
            loss = loss + self.algorithm.kl_coef * kl_loss(logps, reference, mask, weight)
        self.manual_backward(loss)

    def configure_optimizers(self):
        """Return Adam over the policies' groups, each known by its agent. `update` sets the rates.

        Anything else that trains is a group with a "name" and a "rate" of its own
        (examples/credit/critic.diff).
        """
        groups = []
        for agent in self.team.policies():
            parameters = self.team.parameters_of(agent)
            groups.append({"params": parameters, "agent": agent, "rate": self.algorithm.lr[agent]})
        return torch.optim.Adam(groups, betas=(0.9, 0.99), fused=True)

    def train_dataloader(self):
        """Return endless empty batches: the problems of a step depend on its number alone."""
        return itertools.repeat(0)

    def state_dict(self, *args, **kwargs):
        """Return what is trained, and all that this module holds beside the team."""
        trained = {name for name, p in self.named_parameters() if p.requires_grad}
        state = super().state_dict(*args, **kwargs)
        kept = [name for name in state if name in trained or not name.startswith("team.")]
        return {name: state[name] for name in kept}
