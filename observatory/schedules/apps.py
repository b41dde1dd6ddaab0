from django.apps import AppConfig


class SchedulesConfig(AppConfig):
    name = "observatory.schedules"
    label = "schedules"
