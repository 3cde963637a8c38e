"""A RebalancePlan as a bash script that carries it out with kubectl. Enter at :func:`report.kubectl.script.script`. May import
:mod:`report.documents`, :mod:`report.terminal` (the words of a plan) and ``models``."""
