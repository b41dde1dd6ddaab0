from typing import Any

from django.core.management.base import BaseCommand

from observatory.catalog.seed import seed


class Command(BaseCommand):
    help = (
        "Load known accelerators, prices, embodied carbon and sites. Rows that people changed are kept; run it as "
        "often as you like."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        for label, counts in seed().items():
            self.stdout.write(f"{label}: " + ", ".join(f"{counts[what]} {what}" for what in sorted(counts)))
