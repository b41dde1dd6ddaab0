"""Pure calculators. No database."""
