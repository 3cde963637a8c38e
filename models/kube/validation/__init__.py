"""What an API server would refuse: ``kinds.problems`` of an object of any kind, of whose parts the other modules know."""
