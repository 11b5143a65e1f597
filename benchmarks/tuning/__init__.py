"""Settings and merge weights chosen on the validation variant of a benchmark."""
