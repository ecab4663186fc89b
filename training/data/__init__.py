"""Make the data that models are trained on: pairs, definitions, translations, mentions."""
