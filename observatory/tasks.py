"""Every task, a few lines each, calling a room. A message only wakes a worker: arguments are ids, results are rows."""
