"""Where mentions and links sit in a Doc."""
