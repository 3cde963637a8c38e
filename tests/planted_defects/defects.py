"""The defects: the code that reports each, the object, and the line and column of the field that causes it.

``@`` in a text marks the place; it is taken out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.planted_defects.sound import SOUND, ZONE

_WEB_TERM: Final = """\
          - topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                app: web
"""
_WEB_SELECTOR: Final = """\
            labelSelector:
              matchLabels:
                app: web
"""
_DB_SPREAD: Final = """\
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: DoNotSchedule
        labelSelector:
          matchLabels:
            app: db
"""
_WEB_SPEC: Final = """\
        app: web
    spec:
      containers:
      - name: web
"""
_DB_SPEC: Final = """\
        app: db
    spec:
      containers:
      - name: db
"""
_NIGHTLY_SPEC: Final = """\
          restartPolicy: Never
"""
_AGENT_SPEC: Final = """\
        app: agent
    spec:
      containers:
      - name: agent
"""
_WEB_ADOPTS: Final = """\
  selector:
    matchLabels:
      app: web
  strategy"""
_BUDGET: Final = """\
  maxUnavailable: 1
  selector:
    matchLabels:
      app: web
"""
_STRATEGY: Final = """\
      maxSurge: 1
      maxUnavailable: 0
"""
_EMPTY_SPREAD: Final = """\
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  @labelSelector: {}
"""
_CONTRADICTION: Final = """\
nodeSelector:
  kubernetes.io/hostname: a1
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      @nodeSelectorTerms:
      - matchExpressions:
        - {key: kubernetes.io/hostname, operator: NotIn, values: [a1]}
"""
_VOLUME: Final = """\
          volumes:
          - name: data
            persistentVolumeClaim:
              @claimName: results
"""
_BOTH: Final = """\
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - @topologyKey: topology.kubernetes.io/zone
      labelSelector: {matchLabels: {app: db}}
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: topology.kubernetes.io/zone
      labelSelector: {matchLabels: {app: db}}
"""
#: The end of the sound manifest.
_END: Final = """\
                cpu: 200m
                memory: 128Mi
"""
_BACKUP: Final = """\
        image: registry.example/backup:1
        resources:
          requests:
            cpu: 100m
            memory: 64Mi
"""
_OTHER: Final = """\
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: other
  namespace: shop
spec:
  replicas: 1
  selector:
    matchLabels:
      app: other
  template:
    metadata:
      labels:
        app: other
    spec:
      containers:
      - name: other
        image: registry.example/other:1
        resources:
          requests:
            cpu: 100m
            memory: 64Mi
"""


def _under(spec: str, lines: str) -> str:
    """Return a pod spec with more lines in front of its containers."""
    return spec.replace("    spec:\n", "    spec:\n" + "".join(f"      {line}\n" for line in lines.splitlines()))


def _spread(app: str) -> str:
    return f"{_EMPTY_SPREAD.removesuffix('{}' + chr(10))}\n    matchLabels:\n      app: {app}\n".replace(": \n", ":\n")


def _term(app: str, extra: str = "", key: str = "topologyKey: kubernetes.io/hostname") -> str:
    """Return another anti-affinity term of the web pods."""
    more = f"            {extra}\n" if extra else ""
    return f"          - {key}\n{more}            labelSelector:\n              matchLabels:\n                app: {app}\n"


def _affinity(key: str, app: str) -> str:
    return f"""\
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - @topologyKey: {key}
      labelSelector: {{matchLabels: {{app: {app}}}}}
"""


@dataclass(frozen=True)
class Planted:
    """A manifest with a defect. ``code``, ``object``: of the finding; ``line``, ``column``: of the field that causes it, from 1."""

    name: str
    code: str
    object: str
    text: str
    line: int
    column: int

    @property
    def file(self) -> str:
        return f"{self.name}.yaml"

    def write(self, folder: Path) -> Path:
        """Write the manifest to a folder, and return its path."""
        path = folder / self.file
        path.write_text(self.text, encoding="utf-8")
        return path


def planted(name: str, code: str, obj: str, *changes: tuple[str, str], sound: str = SOUND) -> Planted:
    """Return the sound manifest changed, each old text to its new one; in one of these ``@`` marks the place."""
    text = sound
    for old, new in changes:
        assert text.count(old) == 1, f"{name}: {text.count(old)} places"
        text = text.replace(old, new)
    before, mark, after = text.partition("@")
    assert mark, name
    assert "@" not in after, name
    return Planted(name, code, obj, before + after, before.count("\n") + 1, len(before) - before.rfind("\n"))


def _annotated(name: str, value: str) -> tuple[str, str]:
    """Return a change that gives the template of the database an annotation."""
    labels = "    metadata:\n      labels:\n        app: db\n"
    return labels, f"    metadata:\n      annotations:\n        {name}: '{value}'\n      labels:\n        app: db\n"


_WEB, _DB, _AGENT, _NIGHTLY = "Deployment shop/web", "StatefulSet shop/db", "DaemonSet shop/agent", "CronJob shop/nightly"
_SERVICE, _PDB = "Service shop/web", "PodDisruptionBudget shop/web"
_FAR: Final = "resource-policy.nri.io"
DEFECTS: Final = (
    # Rules that choose pods.
    planted("selector-of-others", "KS201", _WEB, (_WEB_SELECTOR, _WEB_SELECTOR.replace("labelS", "@labelS").replace("web", "wbe"))),
    planted("spread-misses-own", "KS202", _WEB, (_WEB_SPEC, _under(_WEB_SPEC, _spread("cache")))),
    planted("selector-null", "KS203", _WEB, (_WEB_TERM, "          - @topologyKey: kubernetes.io/hostname\n")),
    planted("selector-empty", "KS204", _WEB, (_WEB_SPEC, _under(_WEB_SPEC, _EMPTY_SPREAD))),
    planted("namespace-missing", "KS205", _WEB, (_WEB_TERM, _WEB_TERM + _term("cache", "@namespaces: [shpo]"))),
    planted("service-selects-nothing", "KS206", _SERVICE, ("  selector:\n    app: web\n", "  @selector:\n    app: wbe\n")),
    planted("template-missed", "KS207", _WEB, (_WEB_ADOPTS, "  @selector:\n    matchLabels:\n      app: shop\n  strategy")),
    # Rules that no node meets, and objects that there are not.
    planted("no-such-label", "KS211", _WEB, (_WEB_SPEC, _under(_WEB_SPEC, "@nodeSelector:\n  disktype: ssd\n"))),
    planted("label-of-job", "KS211", _NIGHTLY, (_NIGHTLY_SPEC, _NIGHTLY_SPEC + '          @nodeSelector: {gpu: "true"}\n')),
    planted("node-rules-contradict", "KS212", _DB, (_DB_SPEC, _under(_DB_SPEC, _CONTRADICTION))),
    planted(
        "tainted", "KS213", _DB, (_DB_SPEC, _under(_DB_SPEC, "nodeSelector: {pool: gpu}\n@tolerations: [{key: other, operator: Exists}]\n"))
    ),
    planted("too-large", "KS214", _DB, ('            cpu: "1"\n', '            @cpu: "64"\n')),
    planted("affinity-key-missing", "KS215", _DB, (_DB_SPEC, _under(_DB_SPEC, _affinity("rack", "cache")))),
    planted("anti-affinity-key-missing", "KS216", _WEB, (_WEB_TERM, _WEB_TERM + _term("web", key="@topologyKey: rack"))),
    planted("affinity-without-target", "KS217", _DB, (_DB_SPEC, _under(_DB_SPEC, _affinity(ZONE, "queue")))),
    planted(
        "more-replicas-than-zones",
        "KS219",
        _WEB,
        (_WEB_TERM, _WEB_TERM.replace("topologyKey: kubernetes.io/hostname", f"@topologyKey: {ZONE}")),
        ("  replicas: 3\n  selector", "  replicas: 4\n  selector"),
    ),
    planted(
        "more-replicas-than-ports",
        "KS220",
        _DB,
        (
            "        image: registry.example/db:1\n",
            "        image: registry.example/db:1\n        ports:\n        - @containerPort: 5432\n          hostPort: 5432\n",
        ),
        ("  replicas: 3\n  serviceName", "  replicas: 9\n  serviceName"),
    ),
    planted("with-and-without", "KS221", _DB, (_DB_SPEC, _under(_DB_SPEC, _BOTH))),
    planted("node-name-missing", "KS222", _NIGHTLY, (_NIGHTLY_SPEC, _NIGHTLY_SPEC + "          @nodeName: z9\n")),
    planted("priority-class-missing", "KS223", _WEB, (_WEB_SPEC, _under(_WEB_SPEC, "@priorityClassName: hihg\n"))),
    planted("claim-missing", "KS224", _NIGHTLY, (_NIGHTLY_SPEC, _NIGHTLY_SPEC + _VOLUME)),
    planted("storage-class-missing", "KS225", _DB, ("      storageClassName: standard\n", "      @storageClassName: fast\n")),
    planted("service-account-missing", "KS227", _AGENT, (_AGENT_SPEC, _under(_AGENT_SPEC, "@serviceAccountName: agent\n"))),
    # Rules that close domains, and spread that cannot be kept.
    planted(
        "anti-affinity-everywhere",
        "KS301",
        _WEB,
        (
            _WEB_TERM,
            _WEB_TERM + _term("web", "namespaceSelector: {}", f"@topologyKey: {ZONE}"),
        ),
        (_STRATEGY, "      maxSurge: 0\n      maxUnavailable: 1\n"),
    ),
    planted("min-domains", "KS401", _DB, (_DB_SPREAD, _DB_SPREAD.replace("- maxSkew: 1", "- @maxSkew: 1\n        minDomains: 4"))),
    planted("spread-key-missing", "KS405", _DB, (_DB_SPREAD, _DB_SPREAD.replace("topologyKey", "@topologyKey").replace(ZONE, "rack"))),
    # Rollouts and redundancy.
    planted("rounds-to-none", "KS505", _WEB, (_STRATEGY, "      maxSurge: 0\n      @maxUnavailable: 25%\n")),
    planted(
        "pinned",
        "KS516",
        "Deployment shop/other",
        (
            _END,
            _END
            + _OTHER.replace("replicas: 1", "replicas: 2").replace(
                "    spec:\n", "    @spec:\n      nodeSelector: {kubernetes.io/hostname: a2}\n"
            ),
        ),
    ),
    # Budgets.
    planted("budget-allows-none", "KS601", _PDB, (_BUDGET, _BUDGET.replace("maxUnavailable: 1", "@maxUnavailable: 0"))),
    planted("budget-keeps-all", "KS601", _PDB, (_BUDGET, _BUDGET.replace("maxUnavailable: 1", "@minAvailable: 100%"))),
    planted(
        "budget-of-one",
        "KS603",
        _PDB,
        (_BUDGET, _BUDGET.replace("maxUnavailable: 1", "@minAvailable: 1").replace("web", "other")),
        (_END, _END + _OTHER),
    ),
    planted("budget-of-nobody", "KS604", _PDB, (_BUDGET, _BUDGET.replace("selector", "@selector").replace("web", "wbe"))),
    planted("budget-without-scale", "KS606", _PDB, (_BUDGET, _BUDGET.replace("maxU", "@maxU").replace("web", "agent"))),
    planted("budget-allows-all", "KS607", _PDB, (_BUDGET, _BUDGET.replace("maxUnavailable: 1", "@maxUnavailable: 100%"))),
    # Annotations of containers and gangs.
    planted("affinity-unreadable", "KS701", _DB, _annotated(f"@{_FAR}/affinity", "db: [backup")),
    planted("unknown-container", "KS702", _DB, _annotated(f"@{_FAR}/affinity", "{db: [bakcup]}")),
    planted("gang-unreadable", "KS711", _DB, _annotated("@kubestow.dev/min-member", "many")),
    # Requests.
    planted(
        "no-requests",
        "KS801",
        _DB,
        (
            _BACKUP,
            "        image: registry.example/backup:1\n",
        ),
        ("      - name: backup", "      - @name: backup"),
    ),
    planted(
        "no-memory",
        "KS801",
        _NIGHTLY,
        (
            "              requests:\n                cpu: 200m\n                memory: 128Mi\n",
            "              @requests:\n                cpu: 200m\n",
        ),
    ),
    planted("memory-without-unit", "KS810", _NIGHTLY, ("                memory: 128Mi\n", "                @memory: 128m\n")),
)
