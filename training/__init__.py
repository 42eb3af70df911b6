"""Hold a run together. Start at flags.py and plugins.py, and from a loaded model at recorder.py."""
