from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "observatory.demo"
    label = "demo"
