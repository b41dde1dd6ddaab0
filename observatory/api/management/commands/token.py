from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from observatory.api import tokens


class Command(BaseCommand):
    help = "Make an API token for a user and print it, this once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("name", help="What the token is for, such as the program that uses it")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['username']!r}. Make one with: manage.py user NAME")
        try:
            _, text = tokens.make(user, options["name"])
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from None
        self.stdout.write(text)
