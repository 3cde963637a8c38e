"""The scheduler plugins VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/scheduler/framework/plugins/volumebinding/volume_binding.go.
"""
