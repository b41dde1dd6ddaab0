"""What is asked: workload, load plan, SLO and power source."""
