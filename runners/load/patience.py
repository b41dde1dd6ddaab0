"""When going on with a run is pointless: nothing listens, no key is good, no money is left."""

from runners.load.exchange import Exchange
from runners.load.outcomes import FATAL, UNREACHABLE, Outcome

_REFUSALS = 20
_DENIALS = 3


class Patience:
    """Told of every exchange that ended, in their order."""

    def __init__(self) -> None:
        self._refusals = self._denials = 0
        self._served = False

    def reason_to_stop(self, exchange: Exchange) -> str:
        """Empty while there is none."""
        self._refusals = self._refusals + 1 if exchange.outcome in UNREACHABLE else 0
        status = exchange.response.status
        if exchange.outcome in FATAL or exchange.outcome is Outcome.CLIENT_SATURATED:
            return str(exchange.outcome)
        if status == 402:
            return str(Outcome.QUOTA_ERROR)
        if status in (401, 403):
            self._denials += 1
            return "" if self._served and self._denials < _DENIALS else str(Outcome.AUTH_ERROR)
        if status is not None and 200 <= status < 300:
            self._served, self._denials = True, 0
        return "endpoint_down" if self._refusals >= _REFUSALS else ""
