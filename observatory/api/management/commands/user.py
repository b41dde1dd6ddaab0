import secrets
from getpass import getpass
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    help = "Add a person, who can then log in and run benchmarks. The password is made and printed, this once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="The name to log in with")
        parser.add_argument("--staff", action="store_true", help="may also register endpoints, hardware and prices")
        parser.add_argument("--ask", action="store_true", help="ask for a password instead of making one")

    def handle(self, *args: Any, name: str, staff: bool, ask: bool, **options: Any) -> None:
        if User.objects.filter(username=name).exists():
            raise CommandError(f"There is a user {name!r} already. For a new password: manage.py changepassword {name}")
        user = User(username=name, is_staff=staff)
        try:
            password = self._asked(user) if ask else secrets.token_urlsafe(12)
            user.set_password(password)
            user.full_clean()
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        user.save()
        self.stdout.write(f"{name} can log in." if ask else password)

    def _asked(self, user: User) -> str:
        password = getpass("Password: ")
        if getpass("Again: ") != password:
            raise CommandError("The two differ; nothing was changed.")
        validate_password(password, user)
        return password
