"""The reading half of the tables and figures."""
