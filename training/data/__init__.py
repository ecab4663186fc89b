"""What models are trained on: pairs, definitions, translations, mentions."""
