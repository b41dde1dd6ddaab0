"""Studies: arms measured in turn, repeated, set against each other and against theory."""
