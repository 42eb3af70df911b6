"""The writing tasks (tasks.py) and their rewards: rewards.py has the defaults, paper.py those of
the paper, as published and as released. Both doors read texts with text.py and words.py."""
