"""N-gram models and LSTMs, trained on the text of a run, as controls for grammars."""
