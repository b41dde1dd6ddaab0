"""A small server of a Llama-style model with random weights, for checks on a bare GPU: nothing has to be downloaded."""
