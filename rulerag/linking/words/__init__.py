"""Words of questions and texts: names, times, classes of words, and what means much the same."""
