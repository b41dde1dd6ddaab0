"""The form of an endpoint whose engine the observatory starts itself: a recipe, line by line."""

from typing import Any

from django import forms

from observatory.catalog import recipes
from observatory.catalog.models import Endpoint
from runners.engines import options
from runners.engines.recipe import OPTIONS, Engine, Recipe, SpecError

#: Which field shows a fault of the recipe; the rest is shown above the form.
_FIELDS = ("engine", "model", "options", "environment", "threads", "cores", "command", "ready_s")


class EngineForm(forms.ModelForm):  # type: ignore[type-arg]
    engine = forms.ChoiceField(
        choices=[
            (Engine.LLAMA_CPP.value, "llama.cpp"),
            (Engine.VLLM.value, "vLLM"),
            (Engine.COMMAND.value, "a command"),
            (Engine.ROUTER.value, "a router with engines behind it"),
        ]
    )
    recipe_model = forms.CharField(
        required=False,
        max_length=500,
        label="Model",
        help_text="A file, a folder, or a name that the engine fetches. Empty: what is installed (llama.cpp only).",
    )
    options = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false", "placeholder": "n_parallel=8"}),
        help_text="In the engine's own terms, one name=value a line; all of them are listed below.",
    )
    threads = forms.IntegerField(
        required=False, label="CPU threads", help_text="Of llama.cpp. Empty: as many as there are cores."
    )
    cores = forms.CharField(
        required=False, max_length=500, help_text="Bind it to these cores, such as 0,1. Empty: it may use all."
    )
    environment = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        help_text="Variables for the engine, one NAME=value a line.",
    )
    command = forms.CharField(
        required=False,
        max_length=2000,
        help_text="Of an engine that is started by a command, with {port}, {host} and {model} in it.",
    )
    ready_s = forms.FloatField(
        required=False,
        label="Seconds to start",
        help_text=f"It is given up when it does not answer by then. Empty: {Recipe.ready_s:g}.",
    )

    class Meta:
        model = Endpoint
        fields = ("name", "dialect")

    field_order = ("name", "engine", "recipe_model", "options", "threads", "cores", "environment", "command", "ready_s")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        recipe = self.instance.recipe
        given = recipe.get("options", {})
        for name in ("engine", "threads", "command", "ready_s"):
            self.fields[name].initial = recipe.get(name)
        self.fields["recipe_model"].initial = recipe.get("model")
        self.fields["cores"].initial = ",".join(map(str, recipe.get("cores", ())))
        self.fields["environment"].initial = "\n".join(
            f"{name}={value}" for name, value in recipe.get("environment", {}).items()
        )
        self.fields["options"].initial = "\n".join(f"{name}={options.typed(value)}" for name, value in given.items())

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        try:
            recipe = self._recipe(cleaned)
        except SpecError as error:
            field = str(error).split(":")[0].removeprefix("recipe.").split(".")[0]
            shown = {"model": "recipe_model"}.get(field, field)
            self.add_error(shown if field in _FIELDS else None, str(error).removeprefix("recipe."))
        else:
            self.instance.recipe, self.instance.url, self.instance.model = recipe.to_json(), "", recipe.served_name
        return cleaned

    def _recipe(self, cleaned: dict[str, Any]) -> Recipe:
        engine = Engine(cleaned.get("engine") or Engine.LLAMA_CPP)
        given = {
            name: options.named(OPTIONS[engine], name, "recipe.options").of_text(text)
            for name, text in options.pairs(cleaned.get("options", "").splitlines(), "recipe.options")
        }
        data = {
            "engine": engine,
            "model": cleaned.get("recipe_model") or "",
            "options": given,
            "environment": dict(options.pairs(cleaned.get("environment", "").splitlines(), "recipe.environment")),
            "threads": cleaned.get("threads"),
            "cores": options.cores(cleaned.get("cores", ""), "recipe.cores"),
            "command": cleaned.get("command") or "",
            "ready_s": cleaned.get("ready_s") or Recipe.ready_s,
        }
        return recipes.read(data)
