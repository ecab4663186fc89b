"""What the text around a mention says: sections of a note, and status."""
