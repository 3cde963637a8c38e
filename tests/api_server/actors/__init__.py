"""Who else acts in a cluster: controllers, scheduler, kubelets, provisioners."""
