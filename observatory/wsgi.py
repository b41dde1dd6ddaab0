"""The web application for gunicorn: ``gunicorn observatory.wsgi``."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "observatory.settings")

application = get_wsgi_application()
