"""What people see: server-rendered pages, each with .json and .csv twins."""
