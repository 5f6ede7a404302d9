"""The paper's tables, row by row: trained, evaluated and set beside the published figures."""
