"""The building tasks: agents that write commands for one world of blocks, its rules and rewards."""
