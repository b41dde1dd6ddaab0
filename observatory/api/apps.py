from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "observatory.api"
    label = "api"
