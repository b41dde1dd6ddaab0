from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "observatory.runs"
    label = "runs"
