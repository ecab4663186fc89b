"""How a linker folder is made."""
