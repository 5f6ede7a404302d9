"""Trees, text, vocabularies and batches: everything between a file and a tensor of word ids."""
