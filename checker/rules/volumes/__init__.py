"""The scheduler plugins VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits."""
