"""Knowledge graphs: columns, loaders, labels, groundings, words."""
