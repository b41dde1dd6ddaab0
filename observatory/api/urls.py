"""Everything under api/v1/; what is not there is answered in the API's own shape."""

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, path, re_path
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import RedirectView

from observatory.api import errors
from observatory.api.root import api


@csrf_exempt
def nothing_here(request: HttpRequest) -> HttpResponse:
    return api.on_exception(request, errors.NO_SUCH_ADDRESS)


urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(url="docs")),
    path("", api.urls),
    re_path("", nothing_here),
]
