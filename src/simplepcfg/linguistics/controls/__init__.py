"""N-gram models, trained on the text of a run, as controls for grammars."""
