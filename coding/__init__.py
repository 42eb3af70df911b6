"""What the coding tasks and their reward need: extraction (code from a response), items (data rows
to problems with tests), feedback (what agents are told between turns), expert (a larger model)."""
