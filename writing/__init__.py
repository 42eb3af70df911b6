"""The writing tasks (tasks.py) and rewards: rewards.py has the defaults, paper.py the published."""
