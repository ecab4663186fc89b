"""Read the text around a mention: the sections of a note, the status of a mention, the sense of an abbreviation."""
