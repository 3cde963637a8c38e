"""The scheduler plugin PodTopologySpread: hard spread constraints (DoNotSchedule).

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/scheduler/framework/plugins/podtopologyspread/filtering.go.
"""
