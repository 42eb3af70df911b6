"""Runs code that nobody trusts, and says which tests it passed. The door: box.py."""
