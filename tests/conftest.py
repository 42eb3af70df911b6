"""The tests are of the CPU, so that a machine with a GPU runs the same ones: tests/test_card.py has
what is a card's. CUDA_VISIBLE_DEVICES=0 in the environment runs them on that GPU all the same."""

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
