"""Train the recogniser of mentions (`clinical_mentions`): read corpora, make the lexicon, fit, measure."""
