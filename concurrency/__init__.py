"""Work done at once: by several processes, and by the threads that call users' functions."""
