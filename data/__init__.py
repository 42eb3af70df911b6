"""Rows of data sets, from the hub or from a file of one's own. The door: rows.py."""
