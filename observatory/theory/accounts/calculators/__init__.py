"""The accounts as calculators: on the command line, over REST and as pages."""
