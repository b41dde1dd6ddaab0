from django.db import models


class LoginTries(models.Model):
    """Failed logins of one user name from one address in a row. ``key`` tells neither of the two."""

    key = models.CharField(max_length=64, unique=True)
    failures = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "login tries"

    def __str__(self) -> str:
        return f"{self.failures} failed logins"
