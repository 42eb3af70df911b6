"""Code tasks and their rewards.

`items.py` turns data rows into problems with tests. `extraction.py` takes functions out of
responses. `teams.py` and `sandbox/` run them. `feedback.py` writes what agents read between turns.
`schemes.py` names how a team divides its work. `tasks.py` and `rewards.py` are the entry points.
"""
