"""What exists to be measured and paid for: endpoints, deployments, accelerators, sites, prices."""
