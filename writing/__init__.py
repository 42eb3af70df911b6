"""Rewards for writing: strict (the defaults), paper (as published and as released), and what both
stand on, text (words, sentences, anchors) and words (lists)."""
