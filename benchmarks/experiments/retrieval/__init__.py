"""The retrieval half of the tables and figures."""
