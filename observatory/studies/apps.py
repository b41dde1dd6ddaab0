from django.apps import AppConfig


class StudiesConfig(AppConfig):
    name = "observatory.studies"
    label = "studies"
