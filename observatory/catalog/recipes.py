"""Recipes of engines that workers start, as far as this installation allows them."""

from typing import Any

from django.conf import settings

from runners.engines.recipe import Engine, Recipe, SpecError


def read(data: Any) -> Recipe:
    """Raises SpecError that names the field and the fix; also for a command, where commands are off."""
    recipe = Recipe.from_json(data)
    started = {recipe.engine, *(upstream.engine for upstream in recipe.upstreams)}
    if Engine.COMMAND in started and not settings.ENGINE_COMMANDS:
        raise SpecError("recipe.engine: commands are off here; whoever runs web and workers sets ENGINE_COMMANDS=1")
    return recipe
