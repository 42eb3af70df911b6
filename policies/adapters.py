"""LoRA adapters of several agents on one frozen base, applied in one forward pass.

Shapes: N tokens of a pass, ordered by agent; n agents in it; C the most tokens that one of them
has; k layers that read the same input; r the adapters' rank.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn

# Decoding may merge the adapters into a copy of the base's weights per agent: of so many bytes.
MERGED_BYTES = 2**26


class Crew:
    """The agents of a pass and where their tokens stand when each agent has C places of its own.
    place: None where every agent has C tokens, and nothing has to be moved."""

    def __init__(self, agents: Sequence[int], tokens: int, device: torch.device):
        """agents: of each row, in order; tokens: of a row."""
        known = sorted(set(agents))
        self.names = tuple(f"agent{agent}" for agent in known)
        counts = [agents.count(agent) * tokens for agent in known]
        self.places = max(counts)
        self.place = None
        if min(counts) < self.places:
            places = [torch.arange(count) + i * self.places for i, count in enumerate(counts)]
            self.place = torch.cat(places).to(device)

    def apart(self, x: Tensor) -> Tensor:
        """(N, X) -> (n, C, X)."""
        if self.place is not None:
            x = x.new_zeros(len(self.names) * self.places, x.shape[1]).index_copy_(0, self.place, x)
        return x.view(len(self.names), self.places, -1)

    def together(self, x: Tensor) -> Tensor:
        """(n, C, X) -> (N, X)."""
        x = x.view(-1, x.shape[2])
        return x if self.place is None else x.index_select(0, self.place)


class Adapters:
    """What the linear layers of one base compute, for the agents of the pass at hand."""

    def __init__(self, model: nn.Module):
        self.crew: Crew | None = None  # None: the frozen base acts
        self.kept: dict | None = None  # under `still`: what was computed from the weights, once
        self.stacks: Stacks | None = None  # under `learning`: the adapters of the whole update
        self.layers = [layer for layer in model.modules() if isinstance(layer, LoraLayer)]
        weights = [_base(layer).weight for layer in self.layers]
        plain = all(type(_base(layer)) is nn.Linear for layer in self.layers)
        plain &= all(weight.dtype == torch.float32 for weight in weights)
        self.bytes = sum(weight.nbytes for weight in weights) if plain else math.inf
        for layer in self.layers:  # also where transformers' own code calls them
            layer.forward = functools.partial(self._forward, layer)

    def _forward(self, layer: LoraLayer, x: Tensor) -> Tensor:
        if self.crew is None:
            return type(layer).forward(layer, x)
        return self.linear((layer,), x.flatten(0, -2))[0].view(*x.shape[:-1], -1)

    def merged_bytes(self, agents: int) -> int:
        """Bytes that a decode of so many agents takes for merged copies; 0 where it makes none."""
        size = agents * self.bytes
        return size if size <= MERGED_BYTES else 0

    @contextlib.contextmanager
    def still(self):
        """While no weight changes (decoding): what is computed from weights is kept."""
        self.kept = {}
        try:
            yield
        finally:
            self.kept = None

    @contextlib.contextmanager
    def learning(self, agents: Sequence[int]):
        """While these agents' micro-batches go forward and backward: their adapters are stacked
        once, and what has reached the stacks goes on into the adapters at the end."""
        self.stacks = Stacks(agents)
        try:
            yield
            self.stacks.backward()
        finally:
            self.stacks = None

    def linear(self, layers: tuple[nn.Module, ...], x: Tensor, joined: int = 1) -> list[Tensor]:
        """W x + s B A x of layers that read the same x: (N, in) -> (N, out) of each, the first
        `joined` of them as one tensor."""
        if self.crew is None:
            outputs = [_call(_base(layer), x) for layer in layers]
        elif self.kept is None:
            outputs = self._one_by_one(layers, x)
        else:
            output, sizes = self._at_once(layers, x)
            return output.split_with_sizes([sum(sizes[:joined]), *sizes[joined:]], 1)
        return outputs if joined == 1 else [torch.cat(outputs[:joined], 1), *outputs[joined:]]

    def _at_once(self, layers: tuple[nn.Module, ...], x: Tensor) -> tuple[Tensor, list[int]]:
        """Outputs side by side, and their sizes: decoding is bound by how many products it makes,
        so all layers are one product, merged with the adapters or beside them."""
        crew = self.crew
        if self.merged_bytes(len(crew.names)):
            weight, bias, sizes = self._once(self._merged, layers)
            x = crew.apart(x)
            x = torch.bmm(x, weight) if bias is None else torch.baddbmm(bias, x, weight)
            return crew.together(x), sizes
        weight, bias, down, up, scale, sizes = self._once(self._beside, layers, x.dtype)
        inner = torch.bmm(crew.apart(x), down)
        if weight is not None:
            output = F.linear(x, weight, bias)
        else:
            outputs = [_call(_base(layer), x) for layer in layers]
            output = torch.cat(outputs, 1) if len(outputs) > 1 else outputs[0]
        if crew.place is None:
            crew.apart(output).baddbmm_(inner, up, alpha=scale)
        else:
            output.add_(crew.together(torch.bmm(inner, up)), alpha=scale)
        return output, sizes

    def _one_by_one(self, layers: tuple[nn.Module, ...], x: Tensor) -> list[Tensor]:
        """In the update: adapters in their own, single precision, as their gradients need it."""
        crew = self.crew
        downs, ups, scale = self._stacked(layers)
        inner = torch.bmm(crew.apart(x.to(downs.dtype)), downs)
        outputs = []
        for layer, part, up in zip(layers, inner.split(ups[0].shape[1], 2), ups, strict=True):
            plain = crew.place is None and type(_base(layer)) is nn.Linear
            if plain and x.dtype == part.dtype:
                output = _call(_base(layer), crew.apart(x)).baddbmm_(part, up, alpha=scale)
                outputs.append(output.flatten(0, 1))
            else:
                output, delta = _call(_base(layer), x), crew.together(torch.bmm(part, up))
                outputs.append(torch.add(output, delta.to(output.dtype), alpha=scale))
        return outputs

    def _once(self, make: Callable, layers: tuple, *how) -> tuple:
        key = layers[0], self.crew.names
        if key not in self.kept:
            self.kept[key] = make(layers, *how)
        return self.kept[key]

    def _stacked(self, layers: tuple) -> tuple[Tensor, list[Tensor], float]:
        """A side by side, (n, in, k r); B of each layer, (n, r, out); s."""
        names = self.crew.names
        if self.stacks:
            downs, *ups = self.stacks.of(layers, names)
        else:
            downs, *ups = stack(layers, names)
        return downs, ups, layers[0].scaling[names[0]]

    def _merged(self, layers: tuple) -> tuple[Tensor, Tensor | None, list[int]]:
        """W + s B A of each agent, the layers side by side, (n, in, k out); bias; sizes of out."""
        downs, ups, scale = self._stacked(layers)
        parts = zip(layers, downs.split(ups[0].shape[1], 2), ups, strict=True)
        merged = [
            torch.baddbmm(_base(layer).weight.T, down, up, alpha=scale) for layer, down, up in parts
        ]
        weight = torch.cat(merged, 2) if len(merged) > 1 else merged[0]
        return weight, _bias(layers), [up.shape[2] for up in ups]

    def _beside(self, layers: tuple, dtype: torch.dtype) -> tuple:
        """W of all layers, (k out, in), and bias, None where they are quantized; A, (n, in, k r),
        and B, (n, k r, k out), a block for each layer, of the type that the layers compute with;
        s; sizes of out."""
        downs, ups, scale = self._stacked(layers)
        blocks = torch.stack([torch.block_diag(*own) for own in zip(*ups, strict=True)])
        weight = bias = None
        if all(type(_base(layer)) is nn.Linear for layer in layers):
            weight, bias = side_by_side([_base(layer).weight for layer in layers]), _bias(layers)
        sizes = [up.shape[2] for up in ups]
        return weight, bias, downs.to(dtype), blocks.to(dtype), scale, sizes


class Stacks:
    """The adapters of the agents of an update, stacked once for all of its passes. Gradients meet
    in the stacks, in the order of the passes, as they would in the adapters themselves."""

    def __init__(self, agents: Sequence[int]):
        self.names = tuple(f"agent{agent}" for agent in sorted(set(agents)))
        self.whole: list[Tensor] = []  # made of the adapters, from which no gradient is asked yet
        self.leaves: dict[tuple, list[Tensor]] = {}  # by the layers and who acts; grads in place
        self.learns = False  # whether a pass has kept what its gradient needs

    def of(self, layers: tuple, names: tuple[str, ...]) -> list[Tensor]:
        """What `stack` makes for these agents."""
        self.learns |= torch.is_grad_enabled()
        if (layers[0], names) in self.leaves:
            return self.leaves[layers[0], names]
        if names == self.names:
            with torch.enable_grad():  # the first pass may be one that keeps nothing
                made = stack(layers, names)
            leaves = [_leaf(t, torch.zeros_like(t)) for t in made]
            self.whole += made
        else:
            whole = self.of(layers, self.names)
            places = [self.names.index(name) for name in names]
            if places[-1] - places[0] >= len(places):  # some between them do not act: a copy
                return [leaf[places] for leaf in whole]
            part = slice(places[0], places[-1] + 1)
            leaves = [_leaf(leaf[part], leaf.grad[part]) for leaf in whole]
        self.leaves[layers[0], names] = leaves
        return leaves

    def backward(self) -> None:
        if self.learns and self.whole:
            made = (leaves for (_, names), leaves in self.leaves.items() if names == self.names)
            grads = [leaf.grad for leaves in made for leaf in leaves]
            torch.autograd.backward(self.whole, grads)


def _leaf(value: Tensor, grad: Tensor) -> Tensor:
    """A leaf whose gradient is added to what `grad` holds, in place."""
    leaf = value.detach().requires_grad_()
    leaf.grad = grad
    return leaf


def stack(layers: tuple, names: tuple[str, ...]) -> list[Tensor]:
    """The adapters of n agents: A of all layers side by side, (n, in, k r), and B of each layer,
    (n, r, out)."""
    downs = torch.cat([layer.lora_A[name].weight for name in names for layer in layers])
    downs = downs.view(len(names), -1, downs.shape[1]).transpose(1, 2)
    ups = [torch.stack([layer.lora_B[name].weight for name in names]) for layer in layers]
    return [downs, *(up.transpose(1, 2) for up in ups)]


@torch.inference_mode(False)  # what is moved here is trained with, too
def side_by_side(weights: list[nn.Parameter]) -> Tensor:
    """Frozen weights (out, in) as one tensor (k out, in) without a copy: they are moved beside each
    other in memory, once, and are views of it from then on."""
    joined, rows = weights[0].detach(), [len(weight) for weight in weights]
    ends = [weight.data_ptr() + weight.nbytes for weight in weights[:-1]]
    if (
        ends != [weight.data_ptr() for weight in weights[1:]]
        or len({weight.untyped_storage().data_ptr() for weight in weights}) > 1
    ):
        joined = torch.cat([weight.detach() for weight in weights])
        for weight, part in zip(weights, joined.split(rows), strict=True):
            weight.data = part
    return joined.as_strided((sum(rows), joined.shape[1]), (joined.shape[1], 1))


def _bias(layers: tuple) -> Tensor | None:
    biases = [_base(layer).bias for layer in layers]
    return None if biases[0] is None else torch.cat(biases)


def _base(layer: nn.Module) -> nn.Module:
    return layer.base_layer if isinstance(layer, LoraLayer) else layer


def _call(base: nn.Module, x: Tensor) -> Tensor:
    """base(x), without a module's call, which costs as much as a small matrix product."""
    return F.linear(x, base.weight, base.bias) if type(base) is nn.Linear else base(x)
