"""The parts of eval.py: methods, who plays them, measures and how they are shown, curves."""
