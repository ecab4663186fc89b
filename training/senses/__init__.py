"""Make the model of the meanings of clinical abbreviations: the inventory of meanings, their contexts, and the model that chooses one."""
