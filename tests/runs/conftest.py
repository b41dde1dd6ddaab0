import html

from django.contrib.auth.models import User
from django.test import Client

from observatory.api import tokens
from observatory.runs.models import Run
from tests.services.fixtures import benchmark, database_url, postgres_server, site, sqlite_template

__all__ = ["benchmark", "database_url", "postgres_server", "site", "sqlite_template"]


def told(run: Run) -> tuple[str, str]:
    """What its page and the API say of a run."""
    user = User.objects.get(username="ada")
    client = Client()
    client.force_login(user)
    headers = {"Authorization": f"Bearer {tokens.make(user, f'for run {run.pk}')[1]}"}
    shown = client.get(f"/api/v1/runs/{run.pk}", headers=headers)
    return html.unescape(client.get(run.get_absolute_url()).content.decode()), shown.content.decode()
