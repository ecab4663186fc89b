"""Links in the formats of others: one format, one file. Each takes linked notes and makes no links."""
