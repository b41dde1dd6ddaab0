from django.apps import AppConfig


class BenchmarksConfig(AppConfig):
    name = "observatory.benchmarks"
    label = "benchmarks"
