"""Does a deployment answer well, and as its reference does? Task sets, evaluations, and what they found."""
