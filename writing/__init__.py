"""What the rewards of the writing tasks read in a text: text.py, and the paper's words.txt."""
