"""The five kinds of mentions, and the semantic group of each kind."""

KINDS = ("problem", "drug", "test", "treatment", "anatomy")
GROUP_OF = {"problem": "DISO", "drug": "CHEM", "test": "PROC", "treatment": "PROC", "anatomy": "ANAT"}
