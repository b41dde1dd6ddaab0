from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "observatory.pages"
    label = "pages"
