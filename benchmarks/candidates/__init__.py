"""What candidate scorers find, what limits them, what each adds, and what they cost.

``python -m benchmarks.candidates study`` measures questions of datasets, ``heldout`` puts joining
beside trivial baselines on datasets of any graph, ``links`` predicts links of graphs, ``growth``
measures seconds and memory on generated graphs, ``cost`` on a dataset, and ``peer`` compares
vectors with PyKEEN's.
"""
