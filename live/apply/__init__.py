"""``kubestow apply``: apply a RebalancePlan or a Placement to a cluster, wave by wave, with a journal of all requests."""
