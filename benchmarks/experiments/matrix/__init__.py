"""Which rows make which table or figure: ``tables.yaml``, read as typed records."""
