"""`concept_matcher`, a component that finds names of the knowledge base in a text.

The files, in the order in which a note goes through them:

- the component and its settings: `component`, `linkers` (names that users add), `remembered`
- names become phrases: `collecting`, `letter_case`, `phrases`, `stored`; words in the form that is compared: `words`, `word_forms`, `shorthand`, `spelling`,
  `wordings`, `word_lists`, `units`, `plain_findings`
- names are found: `reading`, `lookup`, `finding`, `overlaps`, `parts`, `itemised`, `skipped`, `notation`
- names that need the text around them: `in_context`, and one file for each kind: `letters`, `letter_pairs`, `listed`, `short_lists`, `headed`, `worded`, `interrupted`,
  `vital_signs`, `results`, `vaccines`, `levels`, `sutures`, `torn`, `hyphenated`, `on_air`, `hash_fractures`, `defined`
- names that are kept or left out: `meant`, `beside`, `sites`, `products`, `contrast`, `imaging`, `fractures`, `frequencies`, `treatment_days`
- mentions in the Doc, joined with those of a recogniser: `joining`, `doc_spans`
"""
