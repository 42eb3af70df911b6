"""Model FLOPs of a training step, and the FLOPs per second that this machine reaches."""

import time

import torch

FORWARD = 2  # FLOPs per parameter and token, one multiplication and one addition
DTYPES = {32: torch.float32, 16: torch.bfloat16}  # by bits
UPDATE = {"adapters": 4, "full": 6}  # by what is trained, forward and backward


def count_tokens(prompt: int, group: int, response: int, turns: int) -> tuple[int, int]:
    """Return the tokens of one problem and agent: of all prompts, and of all responses.

    Each response opens a node of the next turn, whose prompt also holds the response.
    """
    prompt_tokens = 0
    response_tokens = 0
    for turn in range(turns):
        nodes = group**turn
        prompt_tokens += nodes * (prompt + turn * response)
        response_tokens += nodes * group * response
    return prompt_tokens, response_tokens


def model_flops(
    layers: int, head: int, prompt_tokens: int, response_tokens: int, trained: str
) -> int:
    """Return the FLOPs of the products that every token needs once in a step.

    `layers` and `head` count the parameters of all layers and of the output layer. `trained` is
    "adapters" or "full".

    Every token is multiplied by the layers. Only a response token is multiplied by the head. The
    rollout runs a token forward, and the update runs it forward and backward. A prompt counts once
    for all of its samples. The backward pass of a frozen base computes gradients of inputs, and
    that of a full copy also gradients of weights. Attention and adapters are not counted. nanoGPT
    prints this ratio over the published FLOPs of an A100, and counts attention too.
    """
    per_parameter = FORWARD + UPDATE[trained]
    return per_parameter * (layers * (prompt_tokens + response_tokens) + head * response_tokens)


def peak_flops(dtype: torch.dtype, size: int = 1024, tries: int = 10) -> float:
    """Return the FLOPs per second of large products: the fastest of several."""
    matrix = torch.ones(size, size, dtype=dtype)
    fastest = float("inf")
    for _ in range(tries):
        start = time.perf_counter()
        matrix @ matrix
        fastest = min(fastest, time.perf_counter() - start)
    return FORWARD * size**3 / fastest
