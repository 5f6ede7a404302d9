"""What training reports: progress lines, a live display, event logs, and sample parses."""
