"""What trainings share: command line, settings, processes, checkpoints, losses, validation."""
