"""What a run is. Its doors: flags.py and plugins.py until a model is loaded, then recorder.py."""
