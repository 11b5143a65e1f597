"""Do models know why they answer? Self-explanations beside what the answers need."""
