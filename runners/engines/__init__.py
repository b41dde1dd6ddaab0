"""Engines that are started for a measurement: llama.cpp, vLLM, and any other by its command line."""
