"""How time, memory and disk grow with the size of what is worked on."""
