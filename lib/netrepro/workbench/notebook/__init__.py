"""What a notebook's cells call: the report, the guide, tables and players."""
