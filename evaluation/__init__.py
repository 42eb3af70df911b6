"""What eval.py stands on: methods, who plays them, measures and how they are shown, curves."""
