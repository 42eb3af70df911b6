"""The writing tasks and their rewards: strict (the defaults), paper (as published and as released),
and what both stand on, text and words. The doors: tasks.py and the rewards' files."""
