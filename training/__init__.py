"""Fine-tuning, and the making of the models that are installed; part of a checkout alone."""
