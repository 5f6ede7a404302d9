"""What a trained run answers: a file for each question, between the surface (`Run`) and grammars."""
