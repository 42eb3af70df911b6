"""Read texts for the rewards of the writing tasks: text.py, and the paper's words.txt."""
