from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "observatory.catalog"
    label = "catalog"
