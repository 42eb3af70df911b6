"""What the subjects stand on: rows of data sets, from the hub or a file of one's own
(rows.py), and the problems of task coop (coop.py)."""
