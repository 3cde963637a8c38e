"""What an API server would refuse: ``kinds.problems`` of an object of any kind, ``pods`` of the parts of pods."""
