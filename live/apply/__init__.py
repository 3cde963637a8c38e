"""``kubestow apply``: carries a RebalancePlan or a Placement out on a cluster, wave by wave, and notes every request in a journal."""
