"""Everything that is the card's, on a card that is made of the CPU.

python -m pytest -m card tests/test_card.py
"""

import os
import sys

import pytest
import torch
from helpers import ROOT, output_of

sys.path.append(str(ROOT / "tests/pretend"))

import card


@pytest.mark.card
@pytest.mark.skipif(card.compiler() is None, reason="no C++ compiler")
@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch has cards of its own")
def test_what_has_to_work_on_a_card():
    """Training, evaluation, resuming, launches, memory: tests/pretend/cases.py."""
    command = [sys.executable, card.__file__, "-m", "pytest", "-q", "tests/pretend/cases.py"]
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    output_of(command, cwd=ROOT, env=os.environ | path)
