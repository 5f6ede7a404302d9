"""Dynamic programs over tensors: no words, no modules, nothing imported beyond torch."""
