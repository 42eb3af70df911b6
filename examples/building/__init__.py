"""Agents that build in one world of blocks, and who builds what. tasks.py has the commands."""
