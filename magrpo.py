"""MAGRPO: Multi-Agent Group Relative Policy Optimization (arXiv 2508.04652), the whole algorithm.

The team is a Dec-POMDP, whose state is the item. At turn t agent i sees its own history h_i (its
prompts, its responses, the feedback; never a partner's text) and answers with one whole response
a_i ~ pi_i(. | h_i). The joint response earns one shared reward r. For every problem:

    1. each agent samples G responses to its own prompt, without seeing its partners
    2. joint response g is (a_1^g, ..., a_n^g)
    3. r^g = reward(item, joint response g): one number for the whole team
    4. R^g = r^g + gamma * mean R of the next turn, which joint response g opened
    5. A^g = R^g - mean_g R^g: the same for every agent                            (Eq. 1)
    6. L_i = -(1/G) sum_g A^g sum_tokens log pi_i(token | h_i, tokens before it)   (Eq. 2)
    7. every agent takes one step on its own L_i, its gradient clipped on its own

That is --joint aligned. cross scores every combination, and --joint K scores K for each response.
Then r_i^g is the mean over those with a_i^g, and each agent has its own R and A (steps 4 and 5), as
it has where a reward also pays single agents. Temperature, top-k and top-p are part of pi_i.

What is not there: no critic; no division by the group's standard deviation (it biases the
gradient); no entropy bonus; no KL term unless --kl-coef asks for one; no importance ratio and
nothing to clip it, as a rollout is used for one update and the ratio is 1 (--updates: for several;
--engine: of what its server has sampled, truncated).

Read it in this order: the equations (pure functions), the rollout (steps 1 to 4), the
LightningModule (steps 5 to 7). The team, and how a model is run fast, are in policies/.
"""

import contextlib
import functools
import itertools
import math
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import lightning as L
import numpy as np
import torch
from torch import Tensor, nn

from policies import parallel
from policies.decoding import Response
from policies.memory import halving
from policies.sampling import Sampling, sampling_of
from policies.scoring import Row, importance
from policies.team import Team

GRAD_CLIP = 1.0  # largest gradient norm of one agent
TRAIN, EVAL, ORDER = 0, 1, 2  # streams of random numbers that never meet


# --------------------------------------------------------------------------------------------------
# 1. The equations: pure functions of tensors.
#    Change this for an ablation: another advantage, another loss, another way to spread a reward.
#    What is logged as `return` is Node.value: of these functions earned and mean_pay change it.
# --------------------------------------------------------------------------------------------------


def earned(parts: dict[str, float], agents: int) -> list[float]:
    """What a joint response pays each agent: the sum of its reward's parts, and its own agent/<i>;
    those named metric/... pay nobody."""
    team = sum(v for name, v in parts.items() if not name.startswith(("metric/", "agent/")))
    return [team + parts.get(f"agent/{agent}", 0.0) for agent in range(agents)]


def mean_pay(pay: Tensor) -> Tensor:
    """What is logged of the agents' pay (n, ...): the mean, exactly where all are paid the same."""
    return pay[0] + (pay - pay[0]).mean(0)


@functools.lru_cache
def arrangement(agents: int, samples: int, count: float) -> Tensor:
    """Return the joint responses to score, as sample numbers: (J, n), each sample in `count`.

    They come in `count` rounds of G. Round k shifts agent i's samples by i k, so that they meet
    other partners than in the rounds before. Three agents, G 3, count 2:

        round 0, shifts 0 0 0:  000 111 222  (aligned)
        round 1, shifts 0 1 2:  012 120 201

    If no difference of two agents' numbers has a factor in common with G, two samples meet again
    only when all have met, in round G. With another G some meet earlier. There i k alone would
    repeat a shift (G 8: agent 2 in round 4), so it grows by 1 each time that i k passes G.

    The largest count, G^(n-1), is cross. Samples are independent: random shifts add nothing.
    """
    coprime = all(math.gcd(distance, samples) == 1 for distance in range(1, agents))
    joints = []
    for number in range(min(count, samples ** (agents - 1))):
        cycle, k = divmod(number, samples)
        shifts = [agent * k for agent in range(agents)]
        if not coprime:
            shifts = [shift + shift // samples for shift in shifts]
        for agent in range(2, agents):  # adds a digit of `cycle`: no two rounds are the same
            shifts[agent] += cycle // samples ** (agent - 2)
        for sample in range(samples):
            joints.append([(sample + shift) % samples for shift in shifts])
    return torch.tensor(sorted(joints))


def sample_returns(pay: Tensor, joints: Tensor, future: Tensor, gamma: float) -> Tensor:
    """Return R of every sample of every agent at one node (step 4): (n, G).

    pay (n, J): each agent's for the joint responses (J, n). future (n, G): mean return of the node
    that joint response g opened, 0 on the last turn. A sample's pay is the *mean* over all joint
    responses it is part of, so the gradient's scale does not depend on G; its future is that of its
    aligned one, the only kind that is played on. Unbiased, as partners' samples are independent.
    """
    own = pay.gather(1, joints.argsort(stable=True, dim=0).T)  # each agent's, by its own sample
    return own.reshape(*future.shape, -1).mean(-1) + gamma * future


def advantages(returns: Tensor, mode: str) -> Tensor:
    """Advantage A of every sample over the last axis, the group: (..., G) -> (..., G).

    Expected gradient over true gradient, by enumeration (tests/test_equations.py): mean (G-1)/G,
    rloo and none 1, std not a constant; with max it is the gradient of E[R] - E[best of G] / G,
    which is biased: against the best. Equal returns (to rounding) give exactly 0, but for none.
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
    return centred


def policy_loss(logps: Tensor, mask: Tensor, coef: Tensor) -> Tensor:
    """Eq. 2 over rows of responses, logps and mask (R, T): -sum_rows coef sum_tokens log pi.

    coef (R,) is the advantage times the row's share of the batch, so micro-batches simply add up.
    """
    return -(coef * (logps * mask).sum(-1)).sum()


def clipped_loss(
    logps: Tensor, old: Tensor, mask: Tensor, coef: Tensor, clip: tuple[float, float]
) -> Tensor:
    """PPO's loss (arXiv 1707.06347, Eq. 7) for a rollout's later updates, shapes as in policy_loss:
    per token min(r A, r' A), with r = pi / old, and r' = r within 1 - clip[0] and 1 + clip[1].

    old (R, T): log pi as it was before the first update, in which r = 1 and this is policy_loss.
    """
    ratio, coef = (logps - old).exp(), coef[:, None]
    within = ratio.clamp(1 - clip[0], 1 + clip[1])
    return -(torch.minimum(ratio * coef, within * coef) * mask).sum()


def kl_loss(logps: Tensor, reference: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    """KL(pi || reference) over rows: 1/2 (log pi - log ref)^2 per token, summed as in policy_loss.

    Its expected gradient, over tokens that pi sampled, is the exact gradient of KL(pi || ref) token
    by token, given the tokens before it. What an early token does to the KL of later ones is left
    out. The usual loss, k3, has the gradient of KL(ref || pi): another objective. k3 is logged.
    """
    return (weight * (0.5 * (logps - reference).square() * mask).sum(-1)).sum()


def learning_rate_factor(step: int, schedule: str, warmup: int, total: int) -> float:
    """Factor on --lr at step 0, 1, ...: warm-up, then constant, or linear or cosine to a tenth."""
    if step < warmup:
        return (step + 1) / warmup
    done = min((step - warmup) / max(total - warmup, 1), 1.0)
    if schedule == "linear":
        return 1.0 - 0.9 * done
    if schedule == "cosine":
        return 0.1 + 0.45 * (1.0 + math.cos(math.pi * done))
    return 1.0


# --------------------------------------------------------------------------------------------------
# 2. The rollout (steps 1 to 4).
#    This must stay as it is, because what an agent observes is made from the item, its own history
#    and the feedback (Rollout.act, Rollout.open), and nothing else makes the team decentralised: a
#    partner's text reaches it only through a task that puts it into the item (advance) or feedback;
#    and because every random number is a function of a node's key, a run can be resumed exactly.
#    Change this for an ablation: which joint responses are scored (score_joints) and played on
#    (open). The held-out evaluation is made of the same scores, so shape pay in set_advantages.
# --------------------------------------------------------------------------------------------------


@dataclass
class Node:
    """One point of the tree: what each agent sees there, what it samples, what that is worth."""

    problem: int  # its number in the batch
    item: dict
    key: tuple[int, ...]  # seeds its random numbers: (seed, stream, step, problem, path)
    histories: list[list[tuple[str, str]]]  # per agent: its own (response, feedback) pairs
    samples: int  # S: G, or 1 on a chain after the first turn
    observations: list[str] = field(default_factory=list)  # per agent: its prompt ...
    prompts: list[tuple[int, ...]] = field(default_factory=list)  # ... and the token ids of it
    responses: list[list[Response]] = field(default_factory=list)  # [agent][sample]
    joints: Tensor | None = None  # the joint responses that are scored, as sample numbers: (J, n)
    parts: list[dict[str, float]] = field(default_factory=list)  # per joint response
    pay: Tensor | None = None  # of each agent, per joint response: (n, J)
    rewards: Tensor | None = None  # what is logged of it: (J,)
    feedback: list[list[str]] = field(default_factory=list)  # [aligned joint response][agent]
    worlds: list[dict] = field(default_factory=list)  # [aligned joint response]: its next item
    children: list["Node"] = field(default_factory=list)  # one per aligned joint response
    values: list[float] = field(default_factory=list)  # mean pay + gamma x children's mean, ...
    value: float = 0.0  # ... of each agent, and what is logged of it
    returns: Tensor | None = None  # (n, S), of `sample_returns`: what is learned from
    advantages: Tensor | None = None  # (n, S)

    def texts(self, joint: tuple[int, ...]) -> list[str]:
        return [self.responses[agent][s].text for agent, s in enumerate(joint)]


class Rollout:
    """Plays a batch of problems. task is the user's (tasks.py says what it is); reward scores many
    joint responses, [(item, texts)], and gives each one's parts (training/scoring.py)."""

    def __init__(self, team: Team, task, reward: Callable, args):
        self.team, self.task, self.reward, self.args = team, task, reward, args
        self.pool = ThreadPoolExecutor(8, thread_name_prefix="feedback")
        self.seconds: dict[str, float] = defaultdict(float)
        for base in set(team.base_of.values()):  # in a chat, a response ends by itself
            base.end_at("" if args.chat_template else task.stop)

    def __call__(
        self, items: list, key: tuple, samples: int, sampling: Sampling, joints: float, chain: bool
    ) -> list[list[Node]]:
        """The nodes of each turn: turn 0 has one per item, later turns one per joint response.

        key: (seed, stream, step, number of the first item), of which every random number is a
        function. joints: in how many joint responses each response is scored (math.inf: all).
        """
        team, turns, nodes = range(self.team.size), [], self.roots(items, key, samples)
        while True:
            with self.timed("rollout"):
                self.act(nodes, sampling)  # steps 1 and 2
            with self.timed("reward"):
                self.score_joints(nodes, joints)  # step 3
                turns.append(nodes)
                if len(turns) == self.args.turns:
                    break
                self.move_on(nodes)
            nodes = [child for node in nodes for child in self.open(node, 1 if chain else samples)]
        for nodes in reversed(turns):  # step 4
            for node in nodes:
                ahead = [n.values for n in node.children] or [[0.0] * len(team)] * node.samples
                future = torch.DoubleTensor(list(zip(*ahead, strict=True)))  # (n, S)
                pairs, gamma = zip(node.pay, future, strict=True), self.args.gamma
                node.values = [float(now.mean() + gamma * then.mean()) for now, then in pairs]
                node.value = float(mean_pay(torch.DoubleTensor(node.values)))
                node.returns = sample_returns(node.pay, node.joints, future, gamma)
        return turns

    def roots(self, items: list, key: tuple, samples: int) -> list[Node]:
        """The first turn's nodes; key as in __call__."""
        team = range(self.team.size)
        return [
            Node(b, item, (*key[:3], key[3] + b), [[] for _ in team], samples)
            for b, item in enumerate(items)
        ]

    def encode(self, agent: int, text: str) -> tuple[int, ...]:
        args = self.args
        limits = args.max_prompt_tokens, args.max_new_tokens
        return self.team.base_of[agent].encode(text, args.chat_template, *limits)

    def speakers(self, item: dict, turn: int) -> list[int]:
        """Who answers at a turn. The others say "", and have nothing to learn there."""
        everyone, named = range(self.team.size), self.task.speakers(item, turn)
        if named is not None and (not named or set(named) - set(everyone)):
            raise ValueError(f"speakers() names {named}, and the agents are 0 to {everyone[-1]}")
        return sorted(set(everyone if named is None else named))

    def act(self, nodes: list[Node], sampling: Sampling) -> None:
        """The agents who speak answer their own prompts, those of all nodes decoded together."""
        size, prompts, uniforms = self.team.size, [], []
        for node in nodes:
            node.observations, node.prompts = [""] * size, [()] * size
            speakers = self.speakers(node.item, len(node.histories[0]))
            for agent in speakers:
                text = self.task.observe(agent, node.item, node.histories[agent])
                node.observations[agent], node.prompts[agent] = text, self.encode(agent, text)
                prompts.append((agent, node.prompts[agent]))
            numbers = generator(*node.key).random((size, node.samples, sampling.max_new_tokens))
            uniforms.append(numbers[speakers])
        uniforms = torch.from_numpy(np.concatenate(uniforms))
        answers = iter(self.team.sample(prompts, uniforms, sampling))
        for node in nodes:
            silence = [Response([], "", [], 0.0, True)] * node.samples
            node.responses = [next(answers) if prompt else silence for prompt in node.prompts]

    def score_joints(self, nodes: list[Node], joints: float) -> None:
        """Scores joint responses of every node, so that each response is in as many of them."""
        size, chosen = self.team.size, []
        for node in nodes:
            speakers = self.speakers(node.item, len(node.histories[0]))
            columns = [speakers.index(i) if i in speakers else 0 for i in range(size)]
            node.joints = arrangement(len(speakers), node.samples, joints)[:, columns]
            chosen += [(node.item, node.texts(numbers)) for numbers in node.joints.tolist()]
        found = iter(self.reward(chosen))
        self.seconds["judge"] += self.reward.seconds
        for node in nodes:
            node.parts = list(itertools.islice(found, len(node.joints)))
            pay = zip(*(earned(parts, size) for parts in node.parts), strict=True)
            node.pay = torch.DoubleTensor(list(pay))
            node.rewards = mean_pay(node.pay)

    def move_on(self, nodes: list[Node]) -> None:
        """What each aligned joint response is told, and what becomes of the world."""
        for node in nodes:
            joints = [node.texts((s,) * self.team.size) for s in range(node.samples)]
            items = itertools.repeat(node.item)
            node.feedback = list(self.pool.map(self.task.feedback, items, joints))
            node.worlds = list(self.pool.map(self.task.advance, items, joints))

    def open(self, node: Node, samples: int) -> list[Node]:
        """The next turn of each aligned joint response; an agent's history grows by its own."""
        for s, (texts, item) in enumerate(zip(node.feedback, node.worlds, strict=True)):
            own = zip(node.histories, node.responses, texts, strict=True)
            histories = [[*past, (mine[s].text, text)] for past, mine, text in own]
            node.children.append(Node(node.problem, item, (*node.key, s), histories, samples))
        return node.children

    @contextlib.contextmanager
    def timed(self, name: str):
        start = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - start


def generator(*key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(key))


def problem_numbers(start: int, count: int, size: int, seed: int) -> list[int]:
    """Return which of `size` problems stand at positions start, ...: a new order every epoch.

    Runs that were started before the order had its own stream go on in another order of problems.
    """
    order = functools.cache(lambda epoch: generator(seed, ORDER, epoch).permutation(size))
    places = (divmod(position, size) for position in range(start, start + count))
    return [int(order(epoch)[place]) for epoch, place in places]


# --------------------------------------------------------------------------------------------------
# 3. The LightningModule (steps 5 to 7).
#    Change this for an ablation: what each agent is paid (set_advantages), a response's weight
#    (rows), the loss and the step (update).
#    This must stay as it is, because it is silent when it is wrong: every agent's rows reach its
#    own parameters only, each agent is clipped on its own, a group is centred before it is split.
# --------------------------------------------------------------------------------------------------


class MAGRPO(L.LightningModule):
    """Trains a team on `problems`. args: the flags of train.py. What is written, and when a run may
    end, is in training/recorder.py; what is logged of a step, in training/metrics.py."""

    def __init__(self, team: Team, task, reward: Callable, problems: list[dict], args):
        super().__init__()
        self.automatic_optimization = False  # one optimizer, n losses, clipped one by one
        self.strict_loading = False  # a checkpoint holds what is trained, not the frozen bases
        self.team, self.problems, self.args = team, problems, args
        self.rollout = Rollout(team, task, reward, args)
        self.sampling = sampling_of(args)
        self.turns: list[list[Node]] = []  # the latest rollout
        self.learned: list[Row] = []  # what the latest step learned from
        self.norms: list[float] = []  # the agents' gradient norms in the latest step
        self.updating = False  # the weights are between two steps: no checkpoint may hold them

    def training_step(self, batch, batch_idx):
        self.rollout.seconds.clear()
        self.optimizers().zero_grad()  # the rollout may need the memory
        self.turns = self.play(self.args.batch_size * parallel.place()[1])  # steps 1 to 4
        self.set_advantages()  # step 5
        with self.rollout.timed("update"):
            self.norms = self.update(self.rows())  # steps 6 and 7

    def play(self, count: int) -> list[list[Node]]:
        """The rollout of the next `count` problems, a function of the seed and the step alone."""
        args, step = self.args, self.global_step
        numbers = problem_numbers(step * count, count, len(self.problems), args.seed)
        items, key = [self.problems[n] for n in numbers], (args.seed, TRAIN, step, 0)
        joints = {"aligned": 1, "cross": math.inf}.get(args.joint, args.joint)
        how = (args.num_generations, self.sampling, joints, args.branching == "chain")
        return parallel.play(self.rollout, items, key, *how)

    def groups(self) -> list[list[Node]]:
        """What an advantage is centred over. tree: the G samples of a node, each of which opens a
        node of its own. chain: the G lines of a problem, each played on by one sample a turn."""
        chain, found = self.args.branching == "chain", []
        for nodes in self.turns:
            lines = itertools.groupby(nodes, lambda node: node.problem if chain else id(node))
            found += [list(group) for _, group in lines]
        return found

    def set_advantages(self) -> None:
        for group in self.groups():
            returns = torch.cat([node.returns for node in group], 1)  # (n, G)
            values = advantages(returns, self.args.advantage)
            for node, value in zip(group, values.split([n.samples for n in group], 1), strict=True):
                node.advantages = value

    def rows(self) -> list[Row]:
        """Every response of those who learn, with its advantage and its weight in the loss. Who is
        frozen has no row, and so no backward pass, no gradient and no optimizer state.

        weight: 1 / problems / the agent's responses to the problem at that turn. --normalize
        divides it: by nothing (sum, the paper's), by the row's own length (sequence), or by the
        mean length over all of the agent's responses (token); no micro-batch can change it.
        """
        rows, lengths = [], defaultdict(list)
        for nodes in self.turns:
            share = 1.0 / sum(node.samples for node in nodes)
            for node, agent in itertools.product(nodes, range(self.team.size)):
                if agent in self.args.freeze or not node.prompts[agent]:
                    continue  # it is frozen, or did not speak
                values = node.advantages[agent].tolist()  # G numbers
                for answer, value in zip(node.responses[agent], values, strict=True):
                    row = Row(agent, node.prompts[agent], answer.tokens, value, share, node.problem)
                    row.logps = answer.logps
                    rows.append(row)
                    lengths[agent].append(len(row.tokens))
        for row in rows:
            if self.args.normalize == "sequence":
                row.weight /= len(row.tokens)
            if self.args.normalize == "token":
                row.weight /= np.mean(lengths[row.agent])
        return rows

    def update(self, rows: list[Row]) -> list[float]:
        """--updates steps of every policy on its own loss, the sum over its agents. Returns the
        agents' gradient norms in the last one."""
        args, optimizer = self.args, self.optimizers()
        schedule = (args.lr_schedule, args.warmup_steps, args.max_steps)
        self.learning_rate = args.lr * learning_rate_factor(self.global_step, *schedule)
        for group in optimizer.param_groups:
            group["lr"] = self.learning_rate
        rows = [row for row in rows if parallel.is_own(row.problem, len(self.turns[0]))]
        # A response without advantage has no gradient: but for its KL, it is not even run.
        self.learned = rows = [row for row in rows if row.coef != 0.0 or args.kl_coef]
        groups = [group["params"] for group in optimizer.param_groups]  # one per policy
        for left in reversed(range(args.updates)):
            halving(self.team.bases, lambda: self.set_gradients(rows))
            parallel.sum_gradients([parameter for params in groups for parameter in params])
            norms = [float(nn.utils.clip_grad_norm_(params, GRAD_CLIP)) for params in groups]
            if not all(map(math.isfinite, norms)):  # one such step would ruin every weight
                raise FloatingPointError(f"gradient norms {norms} at step {self.global_step}")
            self.updating = True
            (optimizer.optimizer if left else optimizer).step()  # Lightning counts one of them
            self.updating = left > 0
            for row in rows:
                row.old = row.scored if row.old is None else row.old
        known, bases = self.team.policies(), self.team.base_of
        return [norms[known.index(bases[i].policy_of[i])] for i in range(self.team.size)]

    def set_gradients(self, rows: list[Row]) -> None:
        """Sets the gradients of the policies' losses, in micro-batches that add up."""
        self.optimizers().zero_grad()
        if self.args.kl_coef:
            self.set_reference(rows)
        self.team.score(rows, self.sampling, self.add_gradients)

    def add_gradients(self, rows: list[Row], logps: Tensor, mask: Tensor) -> None:
        """Adds the gradients of a micro-batch's loss; logps and mask (R, T)."""
        coef = torch.tensor([row.coef for row in rows], device=logps.device)
        if self.team.engine:  # another program drew the tokens
            mask = mask * importance(logps, rows)
        old = [row.old for row in rows if row.old is not None]
        if old:  # not the first update
            old = nn.utils.rnn.pad_sequence(old, True)
            loss = clipped_loss(logps, old, mask, coef, self.args.clip)
        else:
            loss = policy_loss(logps, mask, coef)
        if self.args.kl_coef:
            weight = torch.tensor([row.weight for row in rows], device=logps.device)
            frozen = nn.utils.rnn.pad_sequence([row.reference for row in rows], True)
            loss = loss + self.args.kl_coef * kl_loss(logps, frozen, mask, weight)
        self.manual_backward(loss)

    def set_reference(self, rows: list[Row]) -> None:
        """Sets the log-probabilities of each row's tokens under the frozen bases."""
        self.team.score(rows, self.sampling, frozen=True)
        for row in rows:
            row.reference = row.scored

    def configure_optimizers(self):
        groups = [{"params": self.team.parameters_of(agent)} for agent in self.team.policies()]
        return torch.optim.Adam(groups, lr=self.args.lr, betas=(0.9, 0.99), fused=True)

    def train_dataloader(self):
        """Endless empty batches: which problems a step takes depends on its number alone."""
        return itertools.repeat(0)

    def state_dict(self, *args, **kwargs):
        """What is trained, and not the frozen bases."""
        trained = {name for name, p in self.named_parameters() if p.requires_grad}
        state = super().state_dict(*args, **kwargs)
        return {name: value for name, value in state.items() if name in trained}
