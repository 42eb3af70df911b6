"""Run untrusted programs, and return which tests they pass. The entry point is box.py."""
