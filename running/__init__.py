"""What a run is: flags, plug-ins by flag, its folder, its recorder, its metrics. The doors:
flags.py and plugins.py until a model is loaded, recorder.py for the run itself."""
