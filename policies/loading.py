"""Loading models, in 32, 16, 8 or 4 bits, and saving and loading agents."""

import contextlib
import logging
import os
import sys
from logging.handlers import BufferingHandler
from pathlib import Path

import torch
from peft import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from transformers.utils.logging import disable_progress_bar

from policies import Mistake
from policies.decoding import Ask, decode
from policies.logprobs import Row, gaps, score
from policies.model_names import DEVICE, WEIGHTS, TeamOptions, find_model, recorded_name
from policies.sampling import Sampling
from policies.shared_model import PROBED, SharedModel

# On a Hopper GPU, PyTorch 2.11 and later take cuDNN's attention first. It has a fault with a mask
# and 64 keys more than a multiple of 128. Its gradient is NaN for a query whose scores are all
# below -88 (pytorch/pytorch#196678). On an H100, 1 to 2 steps in a hundred were skipped for it.
torch.backends.cuda.enable_cudnn_sdp(False)
disable_progress_bar()  # of transformers, while it loads a model


def load_base(name: str, agents: list[int], options: TeamOptions) -> SharedModel:
    """Load the base of these agents, with new adapters, or (lora_rank 0) as one policy's copy.

    It is checked where it runs, whose rounding counts. New adapters are drawn on the CPU.
    """
    model, tokenizer = load_model(name, options.bits)
    base = SharedModel(model, tokenizer, agents, options).to(device())
    check(base)
    return base


@contextlib.contextmanager
def loading(name: str, needs: str):
    """Raise every error within, of many kinds and sometimes long, as one ValueError."""
    try:
        yield
    except Exception as error:
        raise Mistake(f"cannot load {name}: {needs} ({error!r:.300})") from error


def load_model(name: str, bits: int):
    """Return model and tokenizer of a folder or a hub name, in 32, 16, 8 or 4 bits.

    Raise ValueError at once where the model does not exist: transformers would retry for a minute.
    """
    find_model(name)
    place = device()
    # With 8 or 4 bits, some layers are not quantised: on a CPU they are slow in half precision.
    dtype = torch.float32
    if bits == 16 or (bits < 16 and has_bf16(place)):
        dtype = torch.bfloat16
    options: dict = {"dtype": dtype}
    if bits < 16:
        options["quantization_config"] = BitsAndBytesConfig(
            **{f"load_in_{bits}bit": True},
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype=dtype,
        )
        options["device_map"] = {"": place}  # whole on this process's GPU, not spread over all
    model_name = f"the model {name!r}"
    needs = "it needs config.json, tokenizer and safetensors, of an architecture that transformers "
    needs += "reads without code of the model's own"
    with loading(model_name, needs):
        tokenizer = load_tokenizer(name)
        model = load_weights(name, **options)
    stored = getattr(model.config, "quantization_config", None)
    if stored and not getattr(stored, f"load_in_{bits}bit", False):
        raise Mistake(
            f"{model_name} is stored quantised, not in {bits} bits: give its own --bits, 8 or 4, "
            "or name the model that it was made from"
        )
    model.name_or_path = recorded_name(name)  # peft writes it into saved agents
    return model, tokenizer


def load_weights(where: str | Path, **options):
    """Return the model of a folder or a hub name. Mistake: a weight is missing."""
    model, report = AutoModelForCausalLM.from_pretrained(
        where, output_loading_info=True, use_safetensors=True, **options
    )
    if report["missing_keys"]:  # transformers takes random ones
        raise Mistake(f"it lacks its weights {', '.join(report['missing_keys']):.200}")
    return model


def load_tokenizer(where: str):
    """Load a tokenizer. Warnings of the library meanwhile are shown, in a line each."""
    logger = logging.getLogger("transformers")
    handlers = logger.handlers
    level = logger.level
    warnings = BufferingHandler(sys.maxsize)
    logger.handlers = [warnings]
    logger.setLevel(logging.WARNING)
    try:
        return AutoTokenizer.from_pretrained(where)
    finally:
        logger.handlers = handlers
        logger.setLevel(level)
        for record in warnings.buffer:
            print("warning:", *record.getMessage().split(), file=sys.stderr)


def check(base: SharedModel) -> None:
    """Find out whether a model takes masks. Without them its prompts run one by one.

    Raise Mistake where the model cannot be trained.
    """
    name = type(base.net).__name__
    reach = base.reach
    base.reach = 0
    fault = fault_of(base, 10 * base.tolerance)
    if fault:
        raise Mistake(f"{name} cannot be trained here: one token after the other, {fault}")
    base.reach = reach
    fault = fault_of(base, base.tolerance)  # a deep model rounds more often
    if fault:
        base.run_one_by_one()
        print(
            f"warning: {name} runs prompt by prompt, which is slower (with masks {fault})",
            file=sys.stderr,
        )


def fault_of(base: SharedModel, most: float) -> str:
    """Return what is wrong with the way to run a base: it fails, or its gap is `most` or larger.

    If nothing is wrong, the gap counts as the base's noise.
    """
    try:
        gap = mean_gap(base)
    except Exception as error:  # of a model's own code: many kinds
        return f"it fails: {error!s:.120}"
    if not gap < most:
        return f"its log-probabilities are {gap:.2g} off"
    base.noise = max(base.noise, gap)
    return ""


def mean_gap(base: SharedModel, temperature: float = 1.0) -> float:
    """Return the mean difference in nats between the ways to run a base.

    A few tokens have three log-probabilities. One is of the base when it samples them, and one when
    it scores them. The third is of each text as a row of its own, by transformers' forward pass.
    """
    agent = base.agents[0]
    sampling = Sampling(temperature, 0, 1.0, 8)
    prompts = [(5, 3, 9, 4, 8, 6, 2, 7, 3, 5), (7, 2)]  # any tokens
    uniforms = torch.linspace(0.1, 0.9, PROBED, dtype=torch.float64)
    uniforms = uniforms.view(2, 4, 8)
    answers = decode(base, [Ask(agent, prompt) for prompt in prompts], uniforms, sampling)
    rows = []
    for prompt, responses in zip(prompts, answers, strict=True):
        for response in responses:
            rows.append(Row(agent, prompt, response.tokens, logps=response.logps))
    fast = base.fast
    reach = base.reach
    differences = []
    for _ in ("as it runs", "one by one"):
        score(base, rows, sampling)
        differences.append(gaps(rows))
        base.run_one_by_one()
    base.fast = fast
    base.reach = reach
    return float(torch.cat(differences).abs().mean())


def device() -> torch.device:
    """Return where this process trains and evaluates: as --device says, or its own GPU, or the CPU.

    Raise ValueError where this machine has no such device.
    """
    default = "cpu"
    if torch.cuda.is_available():
        default = "cuda"
    name = os.environ.get(DEVICE) or default
    if not torch.get_device_module(name).is_available():
        raise Mistake(f"--device {name}: torch finds none on this machine")
    if name != "cuda":
        return torch.device(name)
    place = os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or 0
    place = torch.device("cuda", int(place))
    if place.index:  # a graph is recorded on the current GPU, which is the first otherwise
        torch.cuda.set_device(place)
    return place


def has_bf16(place: torch.device) -> bool:
    """Return whether this is a GPU that computes in bf16. GPUs before Ampere emulate it slowly."""
    return place.type == "cuda" and torch.cuda.get_device_capability(place) >= (8, 0)


def save_agent(base: SharedModel, agent: int, path: Path) -> None:
    """Write an agent as peft (transformers, without adapters) loads it, with its tokenizer."""
    path.mkdir(parents=True, exist_ok=True)
    if base.lora:
        save_adapter(base, agent, path)
    else:
        base.net.save_pretrained(path)
    base.codec.tokenizer.save_pretrained(path)


def save_adapter(base: SharedModel, agent: int, path: Path) -> None:
    """Write an agent's adapter in peft's format."""
    [name] = base.adapters_of([agent])  # peft adds a folder of that name
    base.model.save_pretrained(str(path), selected_adapters=[name], save_embedding_layers=False)
    folder = path / name
    for file in folder.iterdir():
        file.replace(path / file.name)
    folder.rmdir()


def load_agent(base: SharedModel, agent: int, path: Path) -> None:
    """Read what `save_agent` wrote into this agent. Raise ValueError where it does not fit."""
    model = base.model
    needs = "it has to be whole, and of this team's model and --lora-rank"
    with loading(f"agent {agent} from {path}", needs):
        if not base.lora:
            saved = load_weights(path)
            model.load_state_dict(saved.state_dict())
            return
        [name] = base.adapters_of([agent])
        weights = load_file(path / WEIGHTS)  # a .bin file is a pickle, which can run code
        own = get_peft_model_state_dict(model, adapter_name=name, save_embedding_layers=False)
        if weights.keys() != own.keys():
            raise Mistake("other names")
        set_peft_model_state_dict(model, weights, name)  # it refuses other shapes
