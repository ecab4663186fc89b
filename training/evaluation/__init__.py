"""What is measured, on what, and how sure it is."""
