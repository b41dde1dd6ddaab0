"""The pools of accelerators that a deployment is given: checked together, and stored in the place of those before."""

from collections.abc import Sequence
from decimal import Decimal

from django.core.exceptions import ValidationError
from django.db import transaction

from observatory.catalog.models import Deployment, Pool
from runners.powers import Pool as PoolSpec
from runners.powers import pool_fault


def specs(pools: Sequence[Pool]) -> tuple[PoolSpec, ...]:
    """What the instrument is told; nothing where one pool has every accelerator, as in a plain deployment."""
    if len(pools) == 1 and not pools[0].gpu_names:
        return ()
    return tuple(PoolSpec(pool.name or "accelerators", pool.gpu_names) for pool in pools)


def check(deployment: Deployment, pools: Sequence[Pool]) -> None:
    """Raises ValidationError that names the field. Where the pools have prices, that of the deployment is their sum."""
    if not pools:
        return
    if deployment.runs_on_cpu:
        raise ValidationError({"runs_on_cpu": "Give it accelerators or the CPU, not both."})
    if len(pools) > 1 and not all(pool.name for pool in pools):
        raise ValidationError({"pools": "Pools: give each pool a name, such as prefill or decode."})
    if fault := pool_fault(specs(pools)):
        raise ValidationError({"pools": f"Pools: {fault}."})
    for pool in pools:
        names = pool.gpu_names
        if names and not any(name.endswith("*") for name in names) and len(names) != pool.count:
            words = f"Pools: {pool.name or 'it'} has {pool.count} accelerators and names {len(names)} GPUs."
            raise ValidationError({"pools": f"{words} Give as many."})
    _price(deployment, pools)


def _price(deployment: Deployment, pools: Sequence[Pool]) -> None:
    known = [pool.usd_per_hour for pool in pools if pool.usd_per_hour is not None]
    if not known:
        return
    if len(known) < len(pools):
        raise ValidationError({"pools": "Pools: give the part of the price of each pool, or of none."})
    total = sum(known, Decimal(0))
    if deployment.usd_per_hour not in (None, total):
        words = f"The pools make {total.normalize():f} $/h together: give that, or leave it empty."
        raise ValidationError({"usd_per_hour": words})
    deployment.usd_per_hour = total


def clean(pools: Sequence[Pool]) -> None:
    """Raises ValidationError for the first that cannot be stored as it is."""
    for number, pool in enumerate(pools):
        try:
            pool.full_clean(exclude=("deployment",))
        except ValidationError as error:
            name, messages = next(iter(error.message_dict.items()))
            raise ValidationError({"pools": f"Pools: {number + 1}, {name}: {' '.join(messages)}"}) from None


def save(deployment: Deployment, pools: Sequence[Pool]) -> None:
    """Stores the deployment with these pools and no others."""
    with transaction.atomic():
        deployment.save()
        deployment.pools.all().delete()
        for pool in pools:
            pool.pk, pool.deployment = None, deployment
            pool.save(force_insert=True)
