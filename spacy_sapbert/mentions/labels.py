"""The five kinds of mention, and the semantic group of each."""

KINDS = ("problem", "drug", "test", "treatment", "anatomy")
GROUP_OF = {"problem": "DISO", "drug": "CHEM", "test": "PROC", "treatment": "PROC", "anatomy": "ANAT"}
