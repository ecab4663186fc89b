"""The open vocabulary: the terminologies that the default linker is made of, joined into one table."""
