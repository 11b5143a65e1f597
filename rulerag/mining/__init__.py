"""Rules from graphs: mined, pruned, applied, read and written.

``amie`` (static) and ``temporal`` (TLogic) mine; ``pruning`` thins a bank; ``inference`` answers
queries with it; ``formats`` are other tools' files. ``indexes``, ``paths`` and ``runtime`` are what
these share.
"""
