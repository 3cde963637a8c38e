"""Initial quotas by place: a guess where pods of tied classes go, which a trial corrects."""

from __future__ import annotations

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.capacity.size.brands import HOSTNAME, Menu
from kubestow.solver.capacity.size.packing import Stock
from kubestow.solver.capacity.size.plan import Local


def guess(menu: Menu, local: Local, count: Ints) -> Stock:
    """Return the stock of all pods.

    Pods of tied classes are spread evenly over the places they can reach, or put together if affinity or a
    gang demands it.
    """
    places = int(local.place.max(initial=0)) + 1
    stock = Stock(np.where(local.by_place, 0, count), np.zeros((len(count), places), dtype=np.int64))
    reach = np.zeros((len(count), places), dtype=bool)
    for p in range(places):
        reach[:, p] = (local.max_pods[:, local.place == p] > 0).any(axis=1)
    classes = menu.cluster.classes
    wanting = [g for g in np.flatnonzero(local.by_place).tolist() if _keys(menu, g)]
    others = [g for g in np.flatnonzero(local.by_place).tolist() if not _keys(menu, g)]
    filled = np.zeros(places, dtype=np.int64)
    for g in [*others, *wanting]:
        open_ = np.flatnonzero(reach[g])
        if not len(open_) or not count[g]:
            continue
        affinity = classes[g].affinity
        if g in wanting and affinity is not None:
            near = np.flatnonzero(stock.by_place[menu.cluster.matching(affinity.full)].sum(axis=0)[open_])
            open_ = open_[near] if len(near) else open_[:1]
        elif (gang := classes[g].gang) is not None and menu.cluster.gangs[gang].key is not None:
            open_places = np.flatnonzero(stock.by_place[list(menu.cluster.gangs[gang].classes)].sum(axis=0)[open_])
            open_ = open_[open_places[:1]] if len(open_places) else open_[:1]
        each, more = divmod(int(count[g]), len(open_))
        stock.by_place[g, open_] += each
        emptiest = open_[np.argsort(filled[open_], kind="stable")][:more]
        stock.by_place[g, emptiest] += 1
        filled += stock.by_place[g] * max(1, int(local.demand[g, 0]))
    return stock


def _keys(menu: Menu, g: int) -> bool:
    affinity = menu.cluster.classes[g].affinity
    return affinity is not None and any(key != HOSTNAME for key in affinity.keys)
