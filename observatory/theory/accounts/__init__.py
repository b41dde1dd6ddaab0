"""Energy, money, carbon and water as pure functions: numbers in, numbers with their marks and sources out.

What cannot be known is None beside a reason; a ValueError says which input to change.
"""
