"""What makes plans trustworthy: liveness, geometry and scripts derived anew, for no planner."""
