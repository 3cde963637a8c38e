"""The actors of a simulated cluster: controllers, scheduler, kubelets and provisioners."""
