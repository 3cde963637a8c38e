"""The configuration of kube-scheduler: profiles, plugins, weights and arguments."""
