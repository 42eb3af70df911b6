"""The code tasks and their rewards: items (data rows to problems with tests), extraction (code from
a response), feedback (what agents are told between turns), schemes (how they divide the work). The
doors: tasks.py, coop.py (the embedded team's task) and rewards.py."""
