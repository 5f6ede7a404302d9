"""The machine that trains: its device, its memory, its failures and its signals."""
