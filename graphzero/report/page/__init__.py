"""The report of a recording as one HTML file. Importing its modules imports matplotlib."""
