"""How models are loaded, sampled and scored fast. The door: base.py, and what it names."""
