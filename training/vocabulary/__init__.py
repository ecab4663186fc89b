"""The open vocabulary: the terminologies of the default linker, joined into one table."""
