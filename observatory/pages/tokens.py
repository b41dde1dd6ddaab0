"""API tokens: made here, shown once, revoked here."""

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from observatory.api.models import Token
from observatory.api.tokens import make, revoke
from observatory.pages.access import Request


class TokenForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Token
        fields = ("name",)
        help_texts = {"name": "What will use it, such as nightly-report."}


@login_required
@never_cache
def tokens(request: Request) -> HttpResponse:
    """The user's tokens. The text of a new one is in the answer to the form, and nowhere after."""
    form = TokenForm(request.POST or None)
    made = text = None
    if request.method == "POST" and form.is_valid():
        made, text = make(request.user, form.cleaned_data["name"])
        form = TokenForm()
    context = {"tokens": request.user.tokens.all(), "form": form, "made": made, "text": text}
    return render(request, "pages/tokens.html", context)


@login_required
@require_POST
def revoke_token(request: Request, pk: int) -> HttpResponse:
    """The token is refused from now on. Only its owner may do that."""
    token = get_object_or_404(Token, pk=pk, user=request.user)
    revoke(token)
    messages.success(request, f"{token.name} is revoked: programs that use it get 401 from now on.")
    return redirect("tokens")
