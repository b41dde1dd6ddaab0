"""Energy, carbon, water and the money of machines as pure functions: numbers in, numbers with marks and sources out.

Prices by the token are in ``runners.prices``. What cannot be known is None beside a reason; ``Impossible`` says which
input contradicts and what to change.
"""
