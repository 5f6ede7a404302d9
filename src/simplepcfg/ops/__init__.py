"""Dynamic programs over tensors: functions of tensors, without words and without ``nn.Module``."""
