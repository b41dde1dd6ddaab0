"""The instruments: load engine, power sampler, probe and calibrator. They know nothing of the application above."""

__version__ = "0.1.0"
