"""Read mentions from a Doc and write links into it."""
